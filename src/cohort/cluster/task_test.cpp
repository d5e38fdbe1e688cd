#include "cohort/cluster/task.h"

#include <gtest/gtest.h>

#include "cohort/cluster/dialects/expect_invalid_test.h"

namespace cohort::cluster {
namespace {

TEST(Task, TypesAndIdsSurviveText) {
  for (TaskType type :
       {TaskType::chief, TaskType::master, TaskType::worker, TaskType::ps, TaskType::evaluator}) {
    EXPECT_EQ(parse_task_type(to_string(type)), type);
    TaskId task{type, 12};
    EXPECT_EQ(parse_task_id(to_string(task)), task);
  }
  EXPECT_EQ(to_string(TaskId{TaskType::worker, 1}), "worker/1");
  EXPECT_EQ(parse_task_id("ps:3"), (TaskId{TaskType::ps, 3}));
}

TEST(Task, AnUnknownTypeIsAnInvalidTaskTypeWithTheNearestKnown) {
  expect_invalid([] { parse_task_type("wroker"); }, {"Invalid task type 'wroker'", "'worker'?",
                                                     "chief, master, worker, ps, evaluator"});
  expect_invalid([] { parse_task_type(""); }, {"Invalid task type ''"});
  expect_invalid([] { parse_task_type("Worker"); }, {"'Worker'"});
}

TEST(Task, AnIdNeedsATypeAndAnIndex) {
  for (const char* bad : {"worker", "worker/", "worker/-1", "worker/x", "worker/99999999999", ""})
    expect_invalid([&] { parse_task_id(bad); }, {bad, "worker/1"});
  expect_invalid([] { parse_task_id("boss/1"); }, {"Invalid task type 'boss'"});
}

}  // namespace
}  // namespace cohort::cluster

#include "cohort/cluster/dialects/task_type_env.h"

#include <gtest/gtest.h>

#include "cohort/cluster/dialects/expect_invalid_test.h"
#include "cohort/cluster/dialects/sample_roles_test.h"

namespace cohort::cluster {
namespace {

void expect_task_type_refused(const Environment& environment,
                              std::initializer_list<const char*> parts) {
  expect_invalid([&] { read_task_type_env(environment); }, parts);
}

TEST(TaskTypeEnv, NamesTheTaskOnly) {
  EXPECT_FALSE(read_task_type_env({}));
  EXPECT_FALSE(read_task_type_env({{"TASK_TYPE", ""}, {"TASK_INDEX", " "}}));
  Role worker = *read_task_type_env({{"TASK_TYPE", "worker"}, {"TASK_INDEX", "2"}});
  EXPECT_EQ(to_string(worker.task), "worker/2");
  EXPECT_EQ(worker.rank, 2);
  EXPECT_FALSE(worker.size_known);
  EXPECT_LT(worker.rank, worker.size);
  Role server = *read_task_type_env({{"TASK_TYPE", "ps"}, {"TASK_INDEX", "1"}});
  EXPECT_EQ(to_string(server.task), "ps/1");
  EXPECT_FALSE(server.is_training());
}

TEST(TaskTypeEnv, TheProgramsOwnClusterCompletesIt) {
  Role role = *read_task_type_env({{"TASK_TYPE", "worker"}, {"TASK_INDEX", "1"}});
  role.cluster.set(TaskType::worker, addresses({"a:1", "b:1", "c:1"}));
  fill_ranks(role);
  EXPECT_TRUE(role.size_known);
  EXPECT_EQ(role.size, 3);
}

TEST(TaskTypeEnv, TakesTheSizeFromWorldSize) {
  Role role =
      *read_task_type_env({{"TASK_TYPE", "worker"}, {"TASK_INDEX", "1"}, {"WORLD_SIZE", "4"}});
  EXPECT_TRUE(role.size_known);
  EXPECT_EQ(role.rank, 1);
  EXPECT_EQ(role.size, 4);
  expect_task_type_refused({{"TASK_TYPE", "worker"}, {"TASK_INDEX", "4"}, {"WORLD_SIZE", "4"}},
                           {"TASK_INDEX=4", "WORLD_SIZE=4", "lower TASK_INDEX"});
}

TEST(TaskTypeEnv, RefusesWhatIsInvalidByName) {
  expect_task_type_refused({{"TASK_TYPE", "boss"}, {"TASK_INDEX", "0"}},
                           {"Invalid task type 'boss' in TASK_TYPE", "worker, ps"});
  expect_task_type_refused({{"TASK_TYPE", "worker"}, {"TASK_INDEX", "-1"}}, {"TASK_INDEX=-1"});
  expect_task_type_refused({{"TASK_TYPE", "worker"}, {"TASK_INDEX", "one"}}, {"TASK_INDEX=one"});
  expect_task_type_refused({{"TASK_TYPE", "worker"}}, {"TASK_TYPE=worker", "Set TASK_INDEX"});
  expect_task_type_refused({{"TASK_INDEX", "3"}}, {"TASK_INDEX=3", "Set TASK_TYPE"});
  expect_task_type_refused({{"TASK_TYPE", "chief"}, {"TASK_INDEX", "1"}},
                           {"TASK_INDEX=1", "one chief"});
}

TEST(TaskTypeEnv, TheTaskSurvivesTheRoundTrip) {
  for (const TaskId& task : two_hosts().tasks()) {
    Environment environment;
    write_task_type_env(role_in(two_hosts(), task), environment);
    EXPECT_EQ(read_task_type_env(environment)->task, task);
  }
}

}  // namespace
}  // namespace cohort::cluster

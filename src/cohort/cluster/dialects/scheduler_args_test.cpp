#include "cohort/cluster/dialects/scheduler_args.h"

#include <gtest/gtest.h>

#include "cohort/cluster/dialects/expect_invalid_test.h"
#include "cohort/cluster/dialects/sample_roles_test.h"

namespace cohort::cluster {
namespace {

using Arguments = std::vector<std::string>;

void expect_arguments_refused(const Arguments& arguments,
                              std::initializer_list<const char*> parts) {
  expect_invalid([&] { parse_scheduler_args(arguments); }, parts);
}

TEST(SchedulerArgs, BothSpellingsMeanTheSame) {
  Role wanted;
  wanted.task = {TaskType::worker, 1};
  wanted.cluster.set(TaskType::ps, addresses({"a:1", "b:1"}));
  wanted.cluster.set(TaskType::worker, addresses({"a:2", "[::1]:2"}));
  wanted.dialect = "scheduler arguments";
  fill_ranks(wanted);
  EXPECT_EQ(
      parse_scheduler_args({"prog", "--lr", "0.1", "--job_name", "worker", "--task_index", "1",
                            "--ps_hosts", "a:1,b:1", "--worker_hosts", "a:2,[::1]:2", "-v"}),
      wanted);
  EXPECT_EQ(parse_scheduler_args({"--job-name=worker", "-task-index=1", "--ps-hosts=a:1, b:1",
                                  "data", "--worker-hosts=a:2,[::1]:2"}),
            wanted);
}

TEST(SchedulerArgs, OtherProgramsArgumentsAreLeftAlone) {
  EXPECT_FALSE(parse_scheduler_args({}));
  EXPECT_FALSE(parse_scheduler_args({"prog", "--job_name", "resnet50", "--epochs=3"}));
  EXPECT_FALSE(
      parse_scheduler_args({"--job_name=", "--task_index=0", "--ps_hosts=", "--worker_hosts="}));
  EXPECT_FALSE(parse_scheduler_args({"prog", "--", "--worker_hosts=a:1"}));
}

TEST(SchedulerArgs, TheLastOfEqualNamesWins) {
  auto role = parse_scheduler_args({"--job_name=ps", "--task_index=0", "--worker_hosts=a:1,b:1",
                                    "--job_name=worker", "--task_index=1"});
  EXPECT_EQ(to_string(role->task), "worker/1");
}

TEST(SchedulerArgs, WithoutHostsTheTaskAloneIsKnown) {
  auto role = parse_scheduler_args({"--job_name=worker", "--task_index=2"});
  EXPECT_EQ(to_string(role->task), "worker/2");
  EXPECT_FALSE(role->size_known);
  EXPECT_EQ(role->dialect, "scheduler arguments");
}

TEST(SchedulerArgs, RefusesWhatIsInvalidByName) {
  expect_arguments_refused({"--worker_hosts=a:1", "--task_index=0"},
                           {"--job_name is missing", "Add --job_name"});
  expect_arguments_refused({"--worker_hosts=a:1", "--job_name=worker", "--task_index"},
                           {"--task_index is missing", "Add --task_index"});
  expect_arguments_refused({"--worker_hosts=a:1", "--job_name=worker", "--task_index=1"},
                           {"worker/1", "out of range"});
  expect_arguments_refused({"--worker_hosts=a:1", "--job_name=worker", "--task_index=-1"},
                           {"--task_index=-1"});
  expect_arguments_refused({"--worker_hosts=a:1", "--job_name=boss", "--task_index=0"},
                           {"--job_name=boss", "Invalid task type 'boss'"});
  expect_arguments_refused({"--worker_hosts=a:1,,b:1", "--job_name=worker", "--task_index=0"},
                           {"--worker_hosts=a:1,,b:1", "''"});
  expect_arguments_refused({"--worker_hosts=me@a:1", "--job_name=worker", "--task_index=0"},
                           {"--worker_hosts", "write 'a:1'"});
  expect_arguments_refused(
      {"--worker_hosts=a:1", "--ps_hosts=a:1", "--job_name=ps", "--task_index=0"},
      {"a:1", "its own port"});
}

TEST(SchedulerArgs, WritesOneWordAnArgument) {
  ClusterSpec cluster;
  cluster.set(TaskType::worker, addresses({"a:1", "b:1"}));
  cluster.set(TaskType::ps, addresses({"c:1"}));
  EXPECT_EQ(
      write_scheduler_args(role_in(cluster, {TaskType::ps, 0})),
      (Arguments{"--job_name=ps", "--task_index=0", "--ps_hosts=c:1", "--worker_hosts=a:1,b:1"}));
}

TEST(SchedulerArgs, EveryTaskSurvivesTheRoundTrip) {
  for (TaskType chief : {TaskType::chief, TaskType::master}) {
    ClusterSpec listed = two_hosts(chief);
    Role wanted;
    wanted.cluster = listed;
    wanted.cluster.set(TaskType::evaluator, {});
    wanted.dialect = "scheduler arguments";
    for (const TaskId& task : listed.tasks()) {
      wanted.task = task;
      fill_ranks(wanted);
      EXPECT_EQ(parse_scheduler_args(write_scheduler_args(role_in(listed, task))), wanted);
    }
  }
}

TEST(SchedulerArgs, LeavesTheProgramItsOwnArguments) {
  EXPECT_EQ(without_scheduler_args({"train", "--job_name", "worker", "--epochs=3", "--task-index=0",
                                    "-worker_hosts=a:1", "-v", "--", "--job_name=x"}),
            (Arguments{"train", "--epochs=3", "-v", "--", "--job_name=x"}));
}

TEST(SchedulerArgs, LeavesALoneJobNameToTheProgram) {
  EXPECT_EQ(without_scheduler_args({"--job_name=mine", "--epochs=3"}),
            (Arguments{"--job_name=mine", "--epochs=3"}));
}

}  // namespace
}  // namespace cohort::cluster

#include "cohort/cluster/dialects/cohort_env.h"

#include <gtest/gtest.h>

#include "cohort/cluster/dialects/expect_invalid_test.h"
#include "cohort/cluster/dialects/sample_roles_test.h"

namespace cohort::cluster {
namespace {

void expect_cohort_env_refused(const Environment& environment,
                               std::initializer_list<const char*> parts) {
  expect_invalid([&] { read_cohort_env(environment); }, parts);
}

void expect_survives(Role role) {
  Environment environment;
  write_cohort_env(role, environment);
  role.dialect = "Cohort";
  EXPECT_EQ(read_cohort_env(environment), role) << to_string(role.task);
}

TEST(CohortEnv, EveryRoleSurvivesTheRoundTrip) {
  for (TaskType chief : {TaskType::chief, TaskType::master})
    for (bool chief_trains : {true, false})
      for (const TaskId& task : two_hosts(chief).tasks())
        expect_survives(role_in(two_hosts(chief), task, chief_trains));
  ClusterSpec apart = two_hosts();
  apart.set(TaskType::evaluator, addresses({"h9:1"}));
  expect_survives(role_in(apart, {TaskType::evaluator, 0}));
  expect_survives(Role{});
  Role unknown_size;
  unknown_size.task = {TaskType::worker, 3};
  unknown_size.rank = 3;
  unknown_size.size = 4;
  unknown_size.size_known = false;
  expect_survives(unknown_size);
  Role elastic;
  elastic.size = 8;
  elastic.elastic = ElasticLimits{2, 8};
  elastic.incarnation = 3;
  elastic.resume = true;
  expect_survives(elastic);
}

TEST(CohortEnv, WritingRemovesWhatTheRoleHasNoValueFor) {
  Environment environment;
  write_cohort_env(role_in(two_hosts(), {TaskType::worker, 0}), environment);
  write_cohort_env(Role{}, environment);
  for (const char* name : {"COHORT_STORE", "COHORT_CLUSTER", "COHORT_JOB", "COHORT_OUTPUT",
                           "COHORT_STRATEGY", "COHORT_MASTER", "COHORT_HOROVOD_RENDEZVOUS"})
    EXPECT_FALSE(environment.contains(name)) << name;
}

TEST(CohortEnv, RankAndSizeByHandSuffice) {
  EXPECT_FALSE(read_cohort_env({{"COHORT_JOB", "x"}, {"COHORT_LOG", "debug"}}));
  Role role =
      *read_cohort_env({{"COHORT_RANK", "1"}, {"COHORT_SIZE", "2"}, {"COHORT_STORE", "h:1"}});
  EXPECT_EQ(to_string(role.task), "worker/1");
  EXPECT_EQ(role.size, 2);
  EXPECT_EQ(role.store, (Address{"h", 1}));
}

TEST(CohortEnv, TaskAndClusterByHandSuffice) {
  Role role = *read_cohort_env({{"COHORT_TASK_TYPE", "worker"},
                                {"COHORT_TASK_INDEX", "1"},
                                {"COHORT_CLUSTER", R"({"chief":["a:1"],"worker":["a:2","b:1"]})"}});
  EXPECT_EQ(role.rank, 2);
  EXPECT_EQ(role.size, 3);
  EXPECT_EQ(role.cross_rank, 1);
}

TEST(CohortEnv, RefusesWhatIsInvalidByName) {
  for (const char* limits : {"4", "3:2", "0:2", "a:b", "2:"})
    expect_cohort_env_refused(
        {{"COHORT_RANK", "0"}, {"COHORT_SIZE", "2"}, {"COHORT_ELASTIC", limits}},
        {"COHORT_ELASTIC", limits});
  expect_cohort_env_refused({{"COHORT_RANK", "2"}, {"COHORT_SIZE", "2"}},
                            {"COHORT_RANK=2", "COHORT_SIZE=2"});
  expect_cohort_env_refused({{"COHORT_RANK", "-1"}, {"COHORT_SIZE", "2"}}, {"COHORT_RANK=-1"});
  expect_cohort_env_refused({{"COHORT_RANK", "0"}}, {"COHORT_RANK=0", "Set COHORT_SIZE"});
  expect_cohort_env_refused({{"COHORT_TASK_TYPE", "worker"}},
                            {"COHORT_TASK_TYPE=worker", "COHORT_TASK_INDEX"});
  expect_cohort_env_refused({{"COHORT_TASK_TYPE", "boss"}, {"COHORT_TASK_INDEX", "0"}},
                            {"Invalid task type 'boss' in COHORT_TASK_TYPE"});
  expect_cohort_env_refused({{"COHORT_CLUSTER", "{}"}}, {"COHORT_CLUSTER", "Set COHORT_TASK_TYPE"});
  Environment worker = {{"COHORT_TASK_TYPE", "worker"}, {"COHORT_TASK_INDEX", "0"}};
  auto with = [&](const char* name, const char* value) {
    Environment environment = worker;
    environment[name] = value;
    return environment;
  };
  expect_cohort_env_refused(with("COHORT_CLUSTER", "{"), {"COHORT_CLUSTER is not JSON", "line 1"});
  expect_cohort_env_refused(with("COHORT_CLUSTER", "{}"), {"COHORT_CLUSTER", "cluster is empty"});
  expect_cohort_env_refused(with("COHORT_CLUSTER", R"({"chief":["a:1"]})"),
                            {"COHORT_CLUSTER", "worker/0"});
  expect_cohort_env_refused(with("COHORT_STORE", "h"), {"COHORT_STORE", "'h' has no port"});
  expect_cohort_env_refused(with("COHORT_ATTEMPT", "0"), {"COHORT_ATTEMPT=0"});
  expect_cohort_env_refused(with("COHORT_CHIEF_TRAINS", "maybe"),
                            {"COHORT_CHIEF_TRAINS=maybe", "0 or 1"});
  Environment contradicting = with("COHORT_RANK", "-1");
  contradicting["COHORT_SIZE"] = "2";
  expect_cohort_env_refused(contradicting, {"COHORT_RANK=-1", "COHORT_TASK_TYPE=worker"});
}

}  // namespace
}  // namespace cohort::cluster

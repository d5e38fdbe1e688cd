#include "cohort/cluster/dialects/torchrun_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/cluster/dialects/expect_invalid_test.h"
#include "cohort/cluster/dialects/sample_roles_test.h"

namespace cohort::cluster {
namespace {

using testing::Pair;
using testing::UnorderedElementsAre;

void expect_torchrun_refused(const Environment& environment,
                             std::initializer_list<const char*> parts) {
  expect_invalid([&] { read_torchrun_env(environment); }, parts);
}

TEST(TorchrunEnv, WritesTorchrunsListExactly) {
  Environment environment;
  write_torchrun_env(role_in(two_hosts(), {TaskType::worker, 2}), environment);
  EXPECT_THAT(
      environment,
      UnorderedElementsAre(
          Pair("RANK", "3"), Pair("LOCAL_RANK", "1"), Pair("WORLD_SIZE", "4"),
          Pair("LOCAL_WORLD_SIZE", "2"), Pair("GROUP_RANK", "1"), Pair("GROUP_WORLD_SIZE", "2"),
          Pair("ROLE_RANK", "3"), Pair("ROLE_NAME", "default"), Pair("ROLE_WORLD_SIZE", "4"),
          Pair("MASTER_ADDR", "::1"), Pair("MASTER_PORT", "5001"),
          Pair("TORCHELASTIC_RESTART_COUNT", "2"), Pair("TORCHELASTIC_MAX_RESTARTS", "5"),
          Pair("TORCHELASTIC_RUN_ID", "job-7")));
}

TEST(TorchrunEnv, ATaskThatDoesNotTrainLosesTheInheritedMasterAndNode) {
  Environment environment = {{"MASTER_ADDR", "x"}, {"PET_NODE_RANK", "0"}, {"HOME", "/root"}};
  write_torchrun_env(role_in(two_hosts(), {TaskType::ps, 0}), environment);
  EXPECT_THAT(environment, UnorderedElementsAre(Pair("HOME", "/root")));
}

TEST(TorchrunEnv, TheAttemptAndTheMasterSurviveTheRoundTrip) {
  const Role role = role_in(two_hosts(), {TaskType::worker, 0});
  Environment environment;
  write_torchrun_env(role, environment);
  const Role read = *read_torchrun_env(environment);
  EXPECT_EQ(read.master, role.master);
  EXPECT_EQ(read.job, role.job);
  EXPECT_EQ(read.attempt, role.attempt);
  EXPECT_EQ(read.max_restarts, role.max_restarts);
}

TEST(TorchrunEnv, RankAndWorldSizeByHandSuffice) {
  EXPECT_FALSE(read_torchrun_env({{"LOCAL_RANK", "0"}, {"RANK", ""}}));
  Role here = *read_torchrun_env(
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}});
  EXPECT_EQ(here.local_rank, 1);
  EXPECT_EQ(here.local_size, 2);
  EXPECT_EQ(here.cross_size, 1);
  Role spread = *read_torchrun_env(
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}});
  EXPECT_EQ(spread.local_rank, 0);
  EXPECT_EQ(spread.local_size, 1);
  EXPECT_EQ(spread.cross_rank, 1);
  EXPECT_EQ(spread.cross_size, 2);
  EXPECT_EQ(spread.master, (Address{"node0", 29500}));
  Role dealt = *read_torchrun_env({{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "4"}});
  EXPECT_EQ(dealt.local_rank, 1);
  EXPECT_EQ(dealt.cross_rank, 1);
  EXPECT_EQ(read_torchrun_env({{"WORLD_SIZE", "1"}})->rank, 0);
}

TEST(TorchrunEnv, RefusesWhatIsInvalidByName) {
  expect_torchrun_refused({{"RANK", "4"}, {"WORLD_SIZE", "4"}}, {"count from 0"});
  expect_torchrun_refused({{"RANK", "0"}}, {"RANK=0", "Set WORLD_SIZE"});
  expect_torchrun_refused({{"WORLD_SIZE", "2"}}, {"WORLD_SIZE=2", "Set RANK"});
  expect_torchrun_refused(
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "3"}, {"LOCAL_WORLD_SIZE", "2"}},
      {"LOCAL_RANK=3", "LOCAL_WORLD_SIZE=2"});
  expect_torchrun_refused({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "3"}},
                          {"LOCAL_WORLD_SIZE=3", "WORLD_SIZE=2"});
  expect_torchrun_refused(
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"GROUP_RANK", "2"}, {"GROUP_WORLD_SIZE", "2"}},
      {"GROUP_RANK=2", "GROUP_WORLD_SIZE=2"});
  expect_torchrun_refused(
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "99999"}},
      {"MASTER_ADDR and MASTER_PORT", "99999", "1 to 65535"});
}

TEST(TorchrunEnv, APyTorchJobsNodeIsOneTaskUntilTorchrunHasRun) {
  Environment node = {{"PET_NNODES", "2"},  {"PET_NODE_RANK", "1"}, {"PET_NPROC_PER_NODE", "auto"},
                      {"RANK", "1"},        {"WORLD_SIZE", "2"},    {"MASTER_ADDR", "job-master-0"},
                      {"MASTER_PORT", "23"}};
  Role role = *read_torchrun_env(node);
  EXPECT_EQ(role.rank, 1);
  EXPECT_EQ(role.size, 2);
  EXPECT_EQ(role.cross_rank, 1);
  EXPECT_EQ(role.local_size, 1);
  EXPECT_EQ(role.master, (Address{"job-master-0", 23}));

  Environment child = node;
  child["RANK"] = "7";
  child["WORLD_SIZE"] = "8";
  child["LOCAL_RANK"] = "3";
  child["LOCAL_WORLD_SIZE"] = "4";
  EXPECT_EQ(read_torchrun_env(child)->rank, 7);

  node["PET_NPROC_PER_NODE"] = "4";
  expect_torchrun_refused(node, {"PET_NPROC_PER_NODE=4", "with torchrun"});
  node["PET_NPROC_PER_NODE"] = "1";
  node["PET_NNODES"] = "1:4";
  expect_torchrun_refused(node, {"PET_NNODES=1:4"});
  node["PET_NNODES"] = "1";
  expect_torchrun_refused(node, {"PET_NODE_RANK=1", "PET_NNODES=1"});
}

}  // namespace
}  // namespace cohort::cluster

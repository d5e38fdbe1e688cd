#include "cohort/cluster/dialects/slurm_env.h"

#include <gtest/gtest.h>

#include "cohort/cluster/dialects/expect_invalid_test.h"
#include "cohort/cluster/dialects/sample_roles_test.h"

namespace cohort::cluster {
namespace {

Environment srun() {
  return {{"SLURM_JOB_ID", "4711"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", "6"},
          {"SLURM_NTASKS", "7"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_NODEID", "3"},
          {"SLURM_JOB_NODELIST", "node[01-03,7]"},
          {"SLURM_NTASKS_PER_NODE", "2(x3),1"}};
}

TEST(SlurmEnv, ReadsRanksNodesAndTasksPerNode) {
  Role role = *read_slurm_env(srun());
  EXPECT_EQ(role.dialect, "Slurm");
  EXPECT_EQ(to_string(role.task), "worker/6");
  EXPECT_EQ(role.rank, 6);
  EXPECT_EQ(role.size, 7);
  EXPECT_EQ(role.local_rank, 0);
  EXPECT_EQ(role.local_size, 1);
  EXPECT_EQ(role.cross_rank, 3);
  EXPECT_EQ(role.cross_size, 4);
  EXPECT_EQ(role.job, "4711");
  EXPECT_FALSE(role.master);
}

TEST(SlurmEnv, TheFourPlainVariablesSuffice) {
  Role role =
      *read_slurm_env({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "1"}});
  EXPECT_EQ(role.local_rank, 1);
  EXPECT_EQ(role.local_size, 2);
  EXPECT_EQ(role.cross_size, 1);
}

TEST(SlurmEnv, TheStepWinsOverTheJob) {
  Environment environment = {{"SLURM_PROCID", "1"},
                             {"SLURM_NODEID", "1"},
                             {"SLURM_STEP_NUM_TASKS", "2"},
                             {"SLURM_STEP_NUM_NODES", "2"},
                             {"SLURM_STEP_NODELIST", "node[02-03]"},
                             {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                             {"MASTER_PORT", "29500"}};
  environment.merge(srun());
  Role role = *read_slurm_env(environment);
  EXPECT_EQ(role.size, 2);
  EXPECT_EQ(role.local_size, 1);
  EXPECT_EQ(role.cross_size, 2);
  EXPECT_EQ(role.master, (Address{"node02", 29500}));
}

TEST(SlurmEnv, SpreadsTasksEvenlyWhereNothingSaysHow) {
  Environment environment = srun();
  environment.erase("SLURM_NTASKS_PER_NODE");
  EXPECT_EQ(read_slurm_env(environment)->local_size, 1);
  environment.insert_or_assign("SLURM_NODEID", "0");
  EXPECT_EQ(read_slurm_env(environment)->local_size, 2);
}

TEST(SlurmEnv, ABatchScriptIsNotATask) {
  EXPECT_FALSE(read_slurm_env({}));
  EXPECT_FALSE(read_slurm_env({{"SLURM_NTASKS", "4"}}));
  Environment environment = srun();
  environment.erase("SLURM_STEP_ID");
  EXPECT_FALSE(read_slurm_env(environment));
}

TEST(SlurmEnv, RefusesWhatIsInvalidByName) {
  auto expect_refused = [](const char* name, const char* value,
                           std::initializer_list<const char*> parts) {
    Environment environment = srun();
    environment[name] = value;
    expect_invalid([&] { read_slurm_env(environment); }, parts);
  };
  expect_refused("SLURM_PROCID", "7", {"SLURM_PROCID=7", "SLURM_NTASKS=7"});
  expect_refused("SLURM_PROCID", "-1", {"SLURM_PROCID=-1"});
  expect_refused("SLURM_NTASKS", "many", {"SLURM_NTASKS=many"});
  expect_refused("SLURM_LOCALID", "1", {"SLURM_LOCALID=1"});
  expect_refused("SLURM_NODEID", "4", {"SLURM_NODEID=4", "2(x3),1"});
  expect_refused("SLURM_JOB_NODELIST", "node[1", {"node[1", "do not match"});
  expect_refused("SLURM_NTASKS_PER_NODE", "two", {"SLURM_NTASKS_PER_NODE", "'two'"});
}

}  // namespace
}  // namespace cohort::cluster

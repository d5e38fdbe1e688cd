#include <gtest/gtest.h>

#include "cohort/cluster/dialects/expect_invalid_test.h"
#include "cohort/cluster/dialects/sample_roles_test.h"
#include "cohort/cluster/dialects/scheduler_args.h"
#include "cohort/cluster/role.h"

namespace cohort::cluster {
namespace {

const char* kTfConfigText =
    R"({"cluster":{"chief":["a:1"],"worker":["a:2","b:1"]},"task":{"type":"worker","index":1}})";

// The variables of `environment` whose names begin with one of `prefixes`.
Environment only(const Environment& environment, std::initializer_list<const char*> prefixes) {
  Environment result;
  for (const auto& [name, value] : environment)
    for (const char* prefix : prefixes)
      if (name.starts_with(prefix)) result[name] = value;
  return result;
}

TEST(DiscoverRole, AloneWhenNothingIsSet) {
  Role wanted;
  wanted.dialect = "none";
  EXPECT_EQ(discover_role({}, {"prog"}), wanted);
  EXPECT_EQ(discover_role({{"TF_CONFIG", " "}, {"RANK", ""}}, {}), wanted);
}

TEST(DiscoverRole, TheFirstDialectInTheListWins) {
  std::vector<std::string> arguments = {"--job_name=worker", "--task_index=0",
                                        "--worker_hosts=a:1"};
  Environment environment = {{"COHORT_RANK", "0"},
                             {"COHORT_SIZE", "1"},
                             {"TF_CONFIG", kTfConfigText},
                             {"TASK_TYPE", "ps"},
                             {"TASK_INDEX", "0"},
                             {"RANK", "0"},
                             {"WORLD_SIZE", "2"},
                             {"HOROVOD_RANK", "0"},
                             {"HOROVOD_SIZE", "2"},
                             {"OMPI_COMM_WORLD_RANK", "0"},
                             {"OMPI_COMM_WORLD_SIZE", "2"},
                             {"PMI_RANK", "0"},
                             {"PMI_SIZE", "2"},
                             {"MPI_LOCALRANKID", "0"},
                             {"SLURM_PROCID", "0"},
                             {"SLURM_NTASKS", "2"}};
  auto expect_next = [&](const char* dialect, std::initializer_list<const char*> names) {
    EXPECT_EQ(discover_role(environment, arguments).dialect, dialect);
    for (const char* name : names) environment.erase(name);
  };
  expect_next("Cohort", {"COHORT_RANK", "COHORT_SIZE"});
  expect_next("TF_CONFIG", {"TF_CONFIG"});
  expect_next("scheduler arguments", {});
  arguments.clear();
  expect_next("TASK_TYPE", {"TASK_TYPE", "TASK_INDEX"});
  expect_next("torchrun", {"RANK", "WORLD_SIZE"});
  expect_next("Horovod", {"HOROVOD_RANK", "HOROVOD_SIZE"});
  expect_next("OpenMPI", {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"});
  expect_next("PMI", {"PMI_RANK", "PMI_SIZE"});
  expect_next("Slurm", {"SLURM_PROCID", "SLURM_NTASKS"});
  expect_next("none", {});
}

TEST(DiscoverRole, WhatIsSetButBrokenIsNeverSkipped) {
  Environment good = {{"RANK", "0"}, {"WORLD_SIZE", "2"}};
  for (auto [name, value] : {std::pair{"TF_CONFIG", "garbage"}, std::pair{"TASK_TYPE", "boss"},
                             std::pair{"COHORT_RANK", "x"}, std::pair{"COHORT_STORE", "nowhere"}}) {
    Environment environment = good;
    environment[name] = value;
    expect_invalid([&] { discover_role(environment, {}); }, {name, value});
  }
}

TEST(DiscoverRole, ANamedTaskTakesItsNumbersFromAnotherDialect) {
  Environment environment = {{"TASK_TYPE", "chief"}, {"TASK_INDEX", "0"}};
  EXPECT_FALSE(discover_role({{"TASK_TYPE", "worker"}, {"TASK_INDEX", "1"}}, {}).size_known);
  environment["RANK"] = "0";
  environment["WORLD_SIZE"] = "4";
  Role role = discover_role(environment, {});
  EXPECT_EQ(to_string(role.task), "chief/0");
  EXPECT_EQ(role.size, 4);
  EXPECT_TRUE(role.size_known);
  EXPECT_EQ(role.dialect, "TASK_TYPE");
  Role by_arguments =
      discover_role({{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "3"}},
                    {"--job_name=worker", "--task_index=3"});
  EXPECT_EQ(by_arguments.size, 4);
  EXPECT_EQ(by_arguments.rank, 3);
}

TEST(DiscoverRole, CohortsSettingsAddToAnyDialect) {
  Environment environment = {{"TF_CONFIG", kTfConfigText}, {"COHORT_STORE", "a:9"},
                             {"COHORT_OUTPUT", "/out"},    {"COHORT_STRATEGY", "ps"},
                             {"COHORT_JOB", "j"},          {"COHORT_CHIEF_TRAINS", "0"}};
  Role role = discover_role(environment, {});
  EXPECT_EQ(role.dialect, "TF_CONFIG");
  EXPECT_EQ(role.store, (Address{"a", 9}));
  EXPECT_EQ(role.output, "/out");
  EXPECT_EQ(role.strategy, "ps");
  EXPECT_EQ(role.job, "j");
  EXPECT_EQ(role.rank, 1);
  EXPECT_EQ(role.size, 2);
}

TEST(WriteAllDialects, EveryDialectAgreesWhenReadOneAtATime) {
  for (TaskType chief : {TaskType::chief, TaskType::master}) {
    for (const TaskId& task : two_hosts(chief).tasks()) {
      Role role = role_in(two_hosts(chief), task);
      Environment all;
      write_all_dialects(role, all);
      Role cohort = discover_role(all, {});
      role.dialect = "Cohort";
      EXPECT_EQ(cohort, role);

      std::vector<Role> told = {
          discover_role(only(all, {"TF_CONFIG"}), {}),
          discover_role({}, write_scheduler_args(role)),
      };
      Role named = discover_role(only(all, {"TASK_"}), {});
      EXPECT_EQ(named.task, role.task);
      EXPECT_EQ(named.is_training(), role.is_training());
      for (const Role& one : told) {
        EXPECT_EQ(one.task, role.task) << one.dialect;
        EXPECT_EQ(one.is_chief(), role.is_chief()) << one.dialect;
      }
      Environment torchrun = only(all, {"RANK", "WORLD_", "LOCAL_", "GROUP_", "ROLE_", "MASTER_"});
      Environment horovod = only(all, {"HOROVOD_"});
      EXPECT_EQ(torchrun.empty(), !role.is_training());
      EXPECT_EQ(horovod.empty(), !role.is_training());
      if (role.is_training()) {
        told.push_back(discover_role(torchrun, {}));
        told.push_back(discover_role(horovod, {}));
      }
      for (const Role& one : told) {
        EXPECT_EQ(one.rank, role.rank) << one.dialect;
        EXPECT_EQ(one.size, role.size) << one.dialect;
        if (!role.is_training()) continue;
        EXPECT_EQ(one.local_rank, role.local_rank) << one.dialect;
        EXPECT_EQ(one.local_size, role.local_size) << one.dialect;
        EXPECT_EQ(one.cross_rank, role.cross_rank) << one.dialect;
        EXPECT_EQ(one.cross_size, role.cross_size) << one.dialect;
        EXPECT_EQ(one.is_chief(), role.is_chief()) << one.dialect;
      }
    }
  }
}

TEST(WriteAllDialects, NothingOfTheLaunchersOwnTaskSurvives) {
  Environment environment = {{"RANK", "7"},
                             {"WORLD_SIZE", "9"},
                             {"OMPI_COMM_WORLD_RANK", "7"},
                             {"PMIX_RANK", "7"},
                             {"PMI_RANK", "7"},
                             {"SLURM_PROCID", "7"},
                             {"COHORT_STORE", "old:1"},
                             {"TF_CONFIG", kTfConfigText},
                             {"SLURM_JOB_ID", "4711"},
                             {"PATH", "/bin"}};
  Role service;
  service.task = {TaskType::ps, 0};
  service.rank = service.local_rank = service.cross_rank = -1;
  write_all_dialects(service, environment);
  for (const char* name : {"RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                           "SLURM_PROCID", "COHORT_STORE", "TF_CONFIG"})
    EXPECT_FALSE(environment.contains(name)) << name;
  EXPECT_EQ(environment["SLURM_JOB_ID"], "4711");
  EXPECT_EQ(environment["PATH"], "/bin");
}

}  // namespace
}  // namespace cohort::cluster

#include "cohort/cluster/dialects/mpi_env.h"

#include <gtest/gtest.h>

#include "cohort/cluster/dialects/expect_invalid_test.h"
#include "cohort/cluster/dialects/launcher_variables_test.h"
#include "cohort/cluster/dialects/sample_roles_test.h"

namespace cohort::cluster {
namespace {

TEST(MpiEnv, ReadsOpenMpi) {
  EXPECT_FALSE(read_mpi_env({}));
  Role role = *read_mpi_env({{"OMPI_COMM_WORLD_RANK", "5"},
                             {"OMPI_COMM_WORLD_SIZE", "8"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                             {"PMIX_RANK", "5"},
                             {"MASTER_ADDR", "h"},
                             {"MASTER_PORT", "7"}});
  EXPECT_EQ(role.dialect, "OpenMPI");
  EXPECT_EQ(to_string(role.task), "worker/5");
  EXPECT_EQ(role.rank, 5);
  EXPECT_EQ(role.size, 8);
  EXPECT_EQ(role.local_rank, 1);
  EXPECT_EQ(role.local_size, 4);
  EXPECT_EQ(role.cross_rank, 1);
  EXPECT_EQ(role.cross_size, 2);
  EXPECT_EQ(role.master, (Address{"h", 7}));
}

TEST(MpiEnv, ReadsPmi) {
  Role role = *read_mpi_env(
      {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
  EXPECT_EQ(role.dialect, "PMI");
  EXPECT_EQ(role.rank, 3);
  EXPECT_EQ(role.local_rank, 1);
  EXPECT_EQ(role.cross_rank, 1);
}

TEST(MpiEnv, PmixNeedsASizeFromSomewhere) {
  EXPECT_EQ(read_mpi_env({{"PMIX_RANK", "1"}, {"PMI_SIZE", "2"}})->rank, 1);
  EXPECT_EQ(read_mpi_env({{"PMIX_RANK", "1"}, {"PMI_SIZE", "2"}})->dialect, "PMIx");
  expect_invalid([] { read_mpi_env({{"PMIX_RANK", "1"}}); }, {"PMIX_RANK=1", "WORLD_SIZE"});
}

TEST(MpiEnv, LeavesAPmiWithoutLocalRanksToSlurm) {
  EXPECT_FALSE(read_mpi_env({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"SLURM_PROCID", "1"}}));
  EXPECT_FALSE(read_mpi_env({{"PMIX_RANK", "1"}, {"SLURM_PROCID", "1"}}));
}

TEST(MpiEnv, APmiRankNeedsASize) {
  expect_invalid([] { read_mpi_env({{"PMI_RANK", "2"}}); }, {"PMI_RANK=2", "PMI_SIZE"});
}

TEST(MpiEnv, EveryFormIsErased) {
  Environment environment = {{"PMIX_RANK", "77"}, {"PMI_SIZE", "9"}, {"MPI_LOCALRANKID", "1"}};
  write_openmpi_env(role_in(two_hosts(), {TaskType::worker, 0}), environment);
  EXPECT_EQ(read_mpi_env(environment)->rank, 1);
  erase_mpi_env(environment);
  EXPECT_TRUE(environment.empty());
}

}  // namespace
}  // namespace cohort::cluster

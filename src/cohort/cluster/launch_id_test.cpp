#include "cohort/cluster/launch_id.h"

#include <gtest/gtest.h>

#include "cohort/cluster/role.h"

namespace cohort::cluster {
namespace {

TEST(LaunchId, EachLaunchersOwnNameIsUsed) {
  EXPECT_EQ(launch_id({{"PMIX_NAMESPACE", "428998657"}}, "OpenMPI"), "428998657");
  EXPECT_EQ(launch_id({{"OMPI_MCA_ess_base_jobid", "7"}}, "OpenMPI"), "7");
  EXPECT_EQ(launch_id({{"PMI_PORT", "node1:33333"}}, "PMI"), "node1:33333");
  EXPECT_EQ(launch_id({{"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "3"}}, "Slurm"), "12.3");
  EXPECT_EQ(launch_id({{"TORCHELASTIC_RUN_ID", "none"},
                       {"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", "29500"},
                       {"TORCHELASTIC_RESTART_COUNT", "2"}},
                      "torchrun"),
            "none.127.0.0.1.29500.2");
  EXPECT_EQ(
      launch_id({{"HOROVOD_GLOO_RENDEZVOUS_ADDR", "::1"}, {"HOROVOD_GLOO_RENDEZVOUS_PORT", "4000"}},
                "Horovod"),
      "::1.4000");
}

TEST(LaunchId, AnotherLaunchersVariablesDoNotCount) {
  EXPECT_EQ(launch_id({{"SLURM_JOB_ID", "12"}}, "OpenMPI"), "");
  EXPECT_EQ(launch_id({{"PMIX_NAMESPACE", "1"}}, "TF_CONFIG"), "");
}

TEST(LaunchId, ARoleCarriesIt) {
  const Role role = discover_role({{"OMPI_COMM_WORLD_RANK", "1"},
                                   {"OMPI_COMM_WORLD_SIZE", "2"},
                                   {"PMIX_NAMESPACE", "428998657"}},
                                  {});
  EXPECT_EQ(role.launch, "428998657");
}

}  // namespace
}  // namespace cohort::cluster

#include "cohort/launch/job/slurm_allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SlurmAllocation, NodesBecomeHostsWithASlotForEachTask) {
  JobOptions job;
  take_slurm_allocation(job,
                        {{"SLURM_JOB_NODELIST", "n[1-2],b7"}, {"SLURM_TASKS_PER_NODE", "2(x2),1"}});
  EXPECT_THAT(job.hosts, ElementsAre(Host{"n1", 2}, Host{"n2", 2}, Host{"b7", 1}));
  EXPECT_EQ(job.remote.shell, kSrunShell);
  JobOptions own;
  own.remote.shell = "ssh";
  take_slurm_allocation(own, {{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_TASKS_PER_NODE", "1"}}, 4);
  EXPECT_THAT(own.hosts, ElementsAre(Host{"n1", 4}, Host{"n2", 4}));
  EXPECT_EQ(own.remote.shell, "ssh");
}

TEST(SlurmAllocation, IsRefusedOutsideOfSlurmAndWhereTheNumbersDoNotFit) {
  JobOptions job;
  EXPECT_THAT(message_of<InvalidInput>([&] { take_slurm_allocation(job, {}); }),
              HasSubstr("no Slurm job"));
  EXPECT_THAT(message_of<InvalidInput>([&] {
                take_slurm_allocation(
                    job, {{"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_TASKS_PER_NODE", "1,2"}});
              }),
              HasSubstr("2 numbers for the 3 nodes"));
}

}  // namespace
}  // namespace cohort::launch

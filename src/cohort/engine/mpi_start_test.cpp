#include "cohort/engine/mpi_start.h"

#include <gtest/gtest.h>

namespace cohort::engine {
namespace {

TEST(MpiHostFile, HasThisMachineOrEachHostWithItsSlots) {
  EXPECT_EQ(host_file_text({}, 4), "localhost slots=4\n");
  EXPECT_EQ(host_file_text({{"node1", 3}, {"node2", std::nullopt}}, 4),
            "node1 slots=3\nnode2 slots=2\n");
}

TEST(MpiFailedRank, IsFoundWithItsLastWordsInWhatMpirunReports) {
  EXPECT_EQ(
      failed_rank("[1,0]<stdout>:step 1\n[1,1]<stdout>:ValueError: no data\n"
                  "[1,0]<stdout>:bye\n"
                  "mpirun detected that one or more processes exited with non-zero status, "
                  "thus causing\nthe job to be terminated. The first process to do so was:\n\n"
                  "  Process name: [[30161,1],1]\n  Exit code:    3\n"),
      "rank 1 ended with exit code 3: ValueError: no data");
  EXPECT_EQ(
      failed_rank("mpirun noticed that process rank 2 with PID 0 on node box exited on signal "
                  "9 (Killed).\n"),
      "rank 2 was killed by signal 9 (Killed)");
  EXPECT_EQ(failed_rank("[1,0]<stdout>:all is well\n"), "");
}

}  // namespace
}  // namespace cohort::engine

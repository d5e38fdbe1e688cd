#include "cohort/engine/mpi_start.h"

#include <gtest/gtest.h>

namespace cohort::engine {
namespace {

TEST(MpiHostFile, HasThisMachineOrEachHostWithItsSlots) {
  EXPECT_EQ(host_file_text({}, 4), "localhost slots=4\n");
  EXPECT_EQ(host_file_text({{"node1", 3}, {"node2", std::nullopt}}, 4),
            "node1 slots=3\nnode2 slots=2\n");
}

TEST(MpiKilledRank, IsTheOneThatMpirunReports) {
  EXPECT_EQ(
      killed_rank("mpirun noticed that process rank 2 with PID 0 on node box exited on signal "
                  "9 (Killed).\n"),
      "rank 2 on box was killed by signal 9");
  EXPECT_EQ(killed_rank("all is well\n"), "");
}

}  // namespace
}  // namespace cohort::engine

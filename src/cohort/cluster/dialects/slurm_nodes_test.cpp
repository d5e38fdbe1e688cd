#include "cohort/cluster/dialects/slurm_nodes.h"

#include <gtest/gtest.h>

#include "cohort/cluster/dialects/expect_invalid_test.h"

namespace cohort::cluster {
namespace {

using Nodes = std::vector<std::string>;

TEST(SlurmNodes, ExpandsRangesListsAndPlainNames) {
  EXPECT_EQ(expand_slurm_nodelist("node[01-03,7],b2"),
            (Nodes{"node01", "node02", "node03", "node7", "b2"}));
  EXPECT_EQ(expand_slurm_nodelist("single"), (Nodes{"single"}));
  EXPECT_EQ(expand_slurm_nodelist("n[098-101]-ib"),
            (Nodes{"n098-ib", "n099-ib", "n100-ib", "n101-ib"}));
  EXPECT_EQ(expand_slurm_nodelist("r[1-2]n[8-9]"), (Nodes{"r1n8", "r1n9", "r2n8", "r2n9"}));
}

TEST(SlurmNodes, RefusesMalformedOrEndlessLists) {
  for (const char* bad : {"", "a,,b", "node[1-2", "node1]", "node[[1]]", "node[]", "node[3-1]",
                          "node[a-b]", "node[1-]", "node[0-999999999999]", "a[0-99999]b[0-9]",
                          "node[18446744073709551615-18446744073709551615],x[0-99999]"})
    expect_invalid([&] { expand_slurm_nodelist(bad); }, {bad, "node[01-03,7],b2"});
}

TEST(SlurmNodes, ExpandsCounts) {
  EXPECT_EQ(expand_slurm_counts("2(x3),1"), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(expand_slurm_counts("4"), (std::vector<int>{4}));
  for (const char* bad : {"x", "2(x", "2(x3", "2(x)", "2,,1", "-1", "2(x999999)"})
    expect_invalid([&] { expand_slurm_counts(bad); }, {bad, "2(x3),1"});
}

}  // namespace
}  // namespace cohort::cluster

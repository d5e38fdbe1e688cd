#include "cohort/engine/gpu_usage.h"

#include <gmock/gmock.h>

namespace cohort::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(GpuUsage, IsAddedUpOverGpus) {
  EXPECT_THAT(parse_gpu_memory("4711, 1024\n12, 3\n4711, 1\n"),
              ElementsAre(Pair(12, 3u << 20), Pair(4711, 1025u << 20)));
}

TEST(GpuUsage, LinesOfAnotherFormAreLeftOut) {
  EXPECT_THAT(parse_gpu_memory(""), IsEmpty());
  EXPECT_THAT(parse_gpu_memory("No running processes found\n"), IsEmpty());
  EXPECT_THAT(parse_gpu_memory("4711, [N/A]\n, 3\n0, 3\n-1, 3\n99999999999, 3\n7, 1, 2\n"),
              IsEmpty());
  EXPECT_THAT(parse_gpu_memory("1, 99999999999999999999\n8, 2"), ElementsAre(Pair(8, 2u << 20)));
}

}  // namespace
}  // namespace cohort::engine

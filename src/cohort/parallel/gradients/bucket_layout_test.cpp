#include "cohort/parallel/gradients/bucket_layout.h"

#include <gtest/gtest.h>

namespace cohort::parallel {
namespace {

TEST(BucketLayout, AlignsEntriesAndKeepsToTheLimits) {
  const std::vector<torch::Tensor> parameters{torch::empty({3}), torch::empty({1000}),
                                              torch::empty({20}), torch::empty({20})};
  const std::vector<int> order{3, 2, 1, 0};
  const auto buckets = lay_out_buckets(parameters, order, {128, 256, 1 << 20});
  ASSERT_EQ(buckets.size(), 4u);
  EXPECT_EQ(buckets[0].entries[0].parameter, 3);
  EXPECT_EQ(buckets[1].entries[0].parameter, 2);
  EXPECT_EQ(buckets[2].entries[0].parameter, 1);  // larger than a bucket: one of its own
  EXPECT_EQ(buckets[2].elements, 1008u);
  EXPECT_EQ(buckets[3].entries[0].parameter, 0);
  const auto larger = lay_out_buckets(parameters, order, {1 << 20, 1 << 20, 1 << 20});
  ASSERT_EQ(larger.size(), 1u);
  for (const BucketEntry& entry : larger[0].entries) EXPECT_EQ(entry.offset * 4 % 64, 0u);
  EXPECT_EQ(larger[0].entries[1].offset, 32u);
}

TEST(BucketLayout, OrdersBucketsOfDifferentTypesByWhenTheyAreFull) {
  const std::vector<torch::Tensor> parameters{torch::empty({4}), torch::empty({4}, torch::kDouble),
                                              torch::empty({4})};
  const auto buckets =
      lay_out_buckets(parameters, std::vector<int>{0, 1, 2}, {1024, 1024, 1 << 20});
  ASSERT_EQ(buckets.size(), 2u);
  EXPECT_EQ(buckets[0].dtype, torch::kDouble);
  EXPECT_EQ(buckets[1].dtype, torch::kFloat);
}

}  // namespace
}  // namespace cohort::parallel

#include "cohort/train/loop/measured_sums.h"

#include <gtest/gtest.h>

namespace cohort::train {
namespace {

// Where a GPU is there, the values come from it too.
std::vector<torch::Device> devices() {
  std::vector<torch::Device> all{torch::kCPU};
  if (torch::cuda::is_available()) all.emplace_back(torch::kCUDA);
  return all;
}

TEST(MeasuredSums, HaveTheBitsOfReadingEachValueWhenItIsMade) {
  for (const torch::Device device : devices()) {
    MeasuredSums measured(2);
    std::vector<Sums> expected;
    for (int item = 0; item < 3; ++item) {
      measured.begin_item();
      expected.emplace_back(2);
      for (int batch = 0; batch < item; ++batch) {  // the first item has none
        const auto loss = torch::rand({}, device) / 3;
        const auto hits =
            torch::randint(100, {1}, torch::TensorOptions(device).dtype(torch::kLong));
        const auto half = torch::rand({}, device).to(torch::kBFloat16);
        const double samples = 7 + batch;
        measured.add({.samples = samples, .loss = loss, .weight = {}, .sums = {hits, half}});
        Sums sums(2);
        sums.samples = samples;
        sums.weights = {samples};
        sums.values = {loss.item<double>() * samples, hits.item<double>(), half.item<double>()};
        expected.back().add(sums);
      }
    }
    const std::vector<Sums> read = measured.read();
    ASSERT_EQ(read.size(), expected.size());
    for (std::size_t i = 0; i < read.size(); ++i) {
      EXPECT_EQ(read[i].values, expected[i].values);
      EXPECT_EQ(read[i].weights, expected[i].weights);
      EXPECT_EQ(read[i].samples, expected[i].samples);
    }
    EXPECT_TRUE(measured.read().empty());
  }
}

}  // namespace
}  // namespace cohort::train

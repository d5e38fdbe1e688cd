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
  const auto mean = [](const char* name) {
    return Metric(name, [](const torch::Tensor& output, const torch::Tensor&) {
      return output.sum().to(torch::kBFloat16);
    });
  };
  for (const torch::Device device : devices()) {
    const std::vector<Metric> metrics{mean("a"), mean("b")};
    MeasuredSums measured(metrics);
    std::vector<Sums> expected;
    for (int item = 0; item < 3; ++item) {
      measured.begin_item();
      expected.emplace_back(metrics);
      for (int batch = 0; batch < item; ++batch) {  // the first item has none
        const double samples = 7 + batch;
        const auto mean_loss = torch::rand({}, device) / 3;
        const auto output = torch::rand({7 + batch}, device);
        const auto weight = torch::rand({}, device);
        measured.add({.mean = mean_loss, .weight = weight, .output = output, .target = output},
                     7 + batch);
        const double sum = output.sum().to(torch::kBFloat16).item<double>();
        Sums sums(metrics);
        sums.samples = samples;
        sums.weights = {weight.item<double>()};
        sums.values = {mean_loss.item<double>() * sums.weights[0], sum, samples, sum, samples};
        expected.back().add(sums);
      }
    }
    const std::vector<Sums> read = measured.read();
    ASSERT_EQ(read.size(), expected.size());
    for (std::size_t i = 0; i < read.size(); ++i) EXPECT_EQ(read[i].row(), expected[i].row());
    EXPECT_TRUE(measured.read().empty());
  }
}

}  // namespace
}  // namespace cohort::train

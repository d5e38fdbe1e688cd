#include "cohort/parallel/gradient_memory.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

#include "cohort/collective/form.h"

namespace cohort::parallel {
namespace {

constexpr std::int64_t kElements = 1 << 18;
constexpr std::size_t kBytes = kElements * sizeof(float);

const void* made_here(std::int64_t elements = kElements) {
  return torch::empty({elements}).data_ptr();  // and given back at once
}

TEST(GradientMemory, ServesItsSizesOnItsThreadWhileInUse) {
  const auto group = collective::make_group_of_one();
  const GradientMemory memory(*group, {kBytes});
  const GradientMemory::Use use(memory);
  torch::Tensor first = torch::zeros({kElements});
  const void* place = first.data_ptr();
  EXPECT_NE(torch::zeros({kElements}).data_ptr(), place);  // it is taken
  first.reset();
  torch::Tensor other = torch::zeros({kElements + 1});
  EXPECT_NE(other.data_ptr(), place);
  std::thread([&] { EXPECT_NE(made_here(), place); }).join();
  // Both blocks of that size wait; one of them is this.
  torch::Tensor a = torch::zeros({kElements}), b = torch::zeros({kElements});
  EXPECT_TRUE(a.data_ptr() == place || b.data_ptr() == place);
}

TEST(GradientMemory, TensorsOutliveIt) {
  auto group = collective::make_group_of_one();
  torch::Tensor kept;
  {
    const GradientMemory memory(*group, {kBytes});
    const GradientMemory::Use use(memory);
    kept = torch::ones({kElements});
  }
  group.reset();
  EXPECT_EQ(kept.sum().item<float>(), static_cast<float>(kElements));
  kept.reset();
  EXPECT_NE(made_here(), nullptr);  // LibTorch's own allocator goes on
}

TEST(GradientMemory, StorageThatGrowsLeavesThePool) {
  const auto group = collective::make_group_of_one();
  const GradientMemory memory(*group, {kBytes});
  const GradientMemory::Use use(memory);
  torch::Tensor tensor = torch::ones({kElements});
  tensor.resize_({2 * kElements});
  EXPECT_EQ(tensor.slice(0, 0, kElements).sum().item<float>(), static_cast<float>(kElements));
}

}  // namespace
}  // namespace cohort::parallel

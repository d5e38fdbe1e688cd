#include "cohort/parallel/gradients/gradient_memory.h"

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

#include "cohort/collective/form.h"

namespace cohort::parallel {
namespace {

constexpr std::int64_t kElements = 1 << 18;
constexpr std::size_t kBytes = kElements * sizeof(float);
const std::vector<std::size_t> kSizes{kBytes};
constexpr auto kOthers = GradientMemory::Reader::other_ranks;
constexpr auto kMine = GradientMemory::Reader::this_rank;

const void* made_here(std::int64_t elements = kElements) {
  return torch::empty({elements}).data_ptr();  // and given back at once
}

TEST(GradientMemory, ServesItsSizesOnItsThreadWhileInUse) {
  const auto group = collective::make_group_of_one();
  const GradientMemory memory(*group);
  const GradientMemory::Use use(memory, kOthers, kSizes);
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
    const GradientMemory memory(*group);
    const GradientMemory::Use use(memory, kOthers, kSizes);
    kept = torch::ones({kElements});
  }
  group.reset();
  EXPECT_EQ(kept.sum().item<float>(), static_cast<float>(kElements));
  kept.reset();
  EXPECT_NE(made_here(), nullptr);  // LibTorch's own allocator goes on
}

TEST(GradientMemory, WhatOnlyThisRankReadsServesTheNextGroup) {
  const auto own = BlockPool::of_this_process();
  const void* places[2] = {};
  for (const void*& place : places) {
    const auto group = collective::make_group_of_one();
    const GradientMemory memory(*group, own);
    const GradientMemory::Use use(memory, kMine, kSizes);
    place = made_here();
    const GradientMemory::Use other(memory, kOthers, kSizes);
    EXPECT_EQ(made_here(), place);  // the first Use comes first
  }
  EXPECT_EQ(places[0], places[1]);
  auto kept = own->take(kBytes);  // so the tensors' block is back in it
  EXPECT_EQ(kept->memory.get(), places[0]);
}

TEST(GradientMemory, WhatOtherRanksReadIsTheGroupsOwn) {
  const auto group = collective::make_group_of_one();
  const auto own = BlockPool::of_this_process();
  const GradientMemory memory(*group, own);
  torch::Tensor mine, others;
  {
    const GradientMemory::Use use(memory, kMine, kSizes);
    mine = torch::empty({kElements});
  }
  {
    const GradientMemory::Use use(memory, kOthers, kSizes);
    others = torch::empty({kElements});
  }
  const void* place = mine.data_ptr();
  others.reset();
  mine.reset();
  EXPECT_EQ(own->take(kBytes)->memory.get(), place);
}

// As LibTorch's kernels take scratch memory.
TEST(GradientMemory, MemoryWithoutATensorComesAndGoesByItsAddress) {
  const auto group = collective::make_group_of_one();
  const auto own = BlockPool::of_this_process();
  const GradientMemory memory(*group, own);
  const GradientMemory::Use use(memory, kMine, kSizes);
  at::Allocator* allocator = c10::GetCPUAllocator();
  void* block = allocator->raw_allocate(kBytes);
  EXPECT_NE(made_here(), block);  // it is taken
  void* ordinary = allocator->raw_allocate(kBytes + 64);
  allocator->raw_deallocate(ordinary);
  allocator->raw_deallocate(block);
  const torch::Tensor a = torch::empty({kElements}), b = torch::empty({kElements});
  EXPECT_TRUE(a.data_ptr() == block || b.data_ptr() == block);  // it waited in the pool
}

TEST(GradientMemory, StorageThatGrowsLeavesThePool) {
  const auto group = collective::make_group_of_one();
  const GradientMemory memory(*group);
  const GradientMemory::Use use(memory, kOthers, kSizes);
  torch::Tensor tensor = torch::ones({kElements});
  tensor.resize_({2 * kElements});
  EXPECT_EQ(tensor.slice(0, 0, kElements).sum().item<float>(), static_cast<float>(kElements));
}

}  // namespace
}  // namespace cohort::parallel

// What keeps a step from being recorded as a CUDA graph, as far as it is found without a GPU;
// read_later_test.cpp has the rest.
#include "cohort/train/loop/graphed_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/data/dataset.h"

namespace cohort::train {
namespace {

using ::testing::HasSubstr;

struct Recorder {
  GraphedShards graphs;
  std::function<void(const AnyBatch&)> step = [](const AnyBatch&) {};
  int computed = 0;

  void run(AnyBatch batch) {
    graphs.run({.constants = {1},
                .compute =
                    [this](const AnyBatch& given, bool) {
                      step(given);
                      ++computed;
                      return Measured{};
                    },
                .begin_again = [] { return true; },
                .before_replay = [] {},
                .after_replay = [] {}},
               std::move(batch));
  }
  // What it is refused with, at the latest when it would be recorded.
  std::string refusal(const std::function<AnyBatch(int)>& batch) {
    return message_of<InvalidInput>([&] {
      for (int i = 0; i < 4; ++i) run(batch(i));
    });
  }
};

Recorder recording(CudaGraph wanted, GraphedShards::Agree agree = {}) {
  return {.graphs = GraphedShards(torch::kCPU, wanted, /*speaks=*/false, std::move(agree))};
}

AnyBatch rows(std::int64_t count) { return AnyBatch(torch::zeros({count, 2})); }

TEST(GraphedShardsTest, ABatchThatHoldsNumbersOfTheHostIsNotRecorded) {
  struct Counted {
    torch::Tensor ids;
    std::int64_t tokens = 0;
  };
  const auto batch = [](int i) { return AnyBatch(Counted{torch::zeros({4}), i}); };
  EXPECT_THAT(recording(CudaGraph::on).refusal(batch),
              HasSubstr("cuda_graph is on, but batches hold, or may hold, other values"));
  Recorder automatic = recording(CudaGraph::automatic);
  for (int i = 0; i < 9; ++i) automatic.run(batch(i));
  EXPECT_EQ(automatic.computed, 9);
  EXPECT_FALSE(automatic.graphs.is_on());
}

TEST(GraphedShardsTest, AStepThatDrawsOnTheHostIsNotRecorded) {
  Recorder recorder = recording(CudaGraph::on);
  recorder.step = [](const AnyBatch&) { torch::rand({1}); };
  EXPECT_THAT(recorder.refusal([](int) { return rows(4); }),
              HasSubstr("random numbers of LibTorch's generator of the CPU are drawn"));
  EXPECT_EQ(recorder.computed, 3);
}

TEST(GraphedShardsTest, SeveralReplicasNeedBatchesOfOneShape) {
  const auto longer = [](int i) { return rows(i == 2 ? 5 : 4); };
  EXPECT_THAT(recording(CudaGraph::on, [](bool mine) { return mine; }).refusal(longer),
              HasSubstr("batches have other shapes from step to step"));
}

TEST(GraphedShardsTest, WhatOneReplicaCannotRecordNoneDoes) {
  bool said = true;
  Recorder recorder = recording(CudaGraph::automatic, [&](bool mine) {
    said = mine;
    return false;
  });
  recorder.step = [](const AnyBatch&) { torch::rand({1}); };
  for (int i = 0; i < 6; ++i) recorder.run(rows(4));
  EXPECT_FALSE(said);
  EXPECT_FALSE(recorder.graphs.is_on());
  EXPECT_EQ(recorder.computed, 6);
}

}  // namespace
}  // namespace cohort::train

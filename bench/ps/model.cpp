#include "bench/ps/model.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "cohort/base/error.h"

namespace cohort::bench {

namespace {

// `sum[r]`: what the gradients of elements i with i % 7 == r have added up to.
void check(const std::vector<float>& values, const float (&sum)[7]) {
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    const float wanted = begin_value(i) - kRate * sum[i % 7];
    if (values[i] != wanted)
      throw Error(fmt::format("element {} is {}, not {}", i, values[i], wanted));
  }
}

}  // namespace

ps::ModelSpec make_spec(std::uint64_t elements, int workers, ps::Policy::Mode mode,
                        double momentum) {
  ps::ModelSpec spec;
  for (std::uint64_t at = 0; at < elements; at += kBlockElements) {
    const std::uint64_t count = std::min(kBlockElements, elements - at);
    spec.blocks.push_back({.type = ps::ElementType::f32,
                           .elements = count,
                           .parts = {{.name = fmt::format("block{}", spec.blocks.size()),
                                      .offset = 0,
                                      .elements = count,
                                      .group = 0}}});
  }
  spec.groups.push_back({.kind = ps::UpdateRule::Kind::sgd, .lr = kRate, .momentum = momentum});
  spec.policy.mode = mode;
  spec.workers = spec.shards = workers;
  return spec;
}

WorkerModel::WorkerModel(const ps::ModelSpec& spec, int worker) {
  block_begin.push_back(0);
  for (const ps::Block& block : spec.blocks)
    block_begin.push_back(block_begin.back() + block.elements);
  values.resize(block_begin.back());
  gradients.resize(block_begin.back());
  for (std::uint64_t i = 0; i < gradients.size(); ++i) gradients[i] = gradient(worker, i);
}

ps::InitialState WorkerModel::initial() const {
  ps::InitialState state;
  state.read = [this](int block, int slot, std::uint64_t offset, std::uint64_t elements,
                      std::byte* to) {
    std::memset(to, 0, elements * sizeof(float));
    if (slot >= 0) return;
    const std::uint64_t first = block_begin[static_cast<std::size_t>(block)] + offset;
    auto* out = reinterpret_cast<float*>(to);
    for (std::uint64_t i = 0; i < elements; ++i) out[i] = begin_value(first + i);
  };
  return state;
}

std::vector<ps::BlockRun> WorkerModel::runs() {
  std::vector<ps::BlockRun> runs;
  for (std::size_t b = 0; b + 1 < block_begin.size(); ++b)
    runs.push_back({.block = static_cast<int>(b),
                    .offset = 0,
                    .elements = block_begin[b + 1] - block_begin[b],
                    .memory = reinterpret_cast<std::byte*>(values.data() + block_begin[b])});
  return runs;
}

void WorkerModel::check_sum(std::span<const std::uint64_t> steps) const {
  float sum[7] = {};
  for (std::uint64_t r = 0; r < 7; ++r)
    for (std::size_t w = 0; w < steps.size(); ++w)
      sum[r] += static_cast<float>(steps[w]) * gradient(static_cast<int>(w), r);
  check(values, sum);
}

void WorkerModel::check_momentum(int workers, std::uint64_t steps) const {
  // The buffer after step k is k times the gradient; the values lose every one of them.
  const auto times = static_cast<float>(steps * (steps + 1) / 2);
  float sum[7] = {};
  for (std::uint64_t r = 0; r < 7; ++r)
    for (int w = 0; w < workers; ++w) sum[r] += times * gradient(w, r);
  check(values, sum);
}

ps::StepOutcome make_step(ps::Client& client, WorkerModel& model,
                          std::span<const ps::BlockRun> runs, std::uint64_t sequence, double weight,
                          Deadline deadline) {
  client.begin_step({.sequence = sequence, .weight = weight, .learning_rates = {kRate}});
  for (std::size_t b = 0; b + 1 < model.block_begin.size(); ++b) {
    const auto* partial =
        reinterpret_cast<const std::byte*>(model.gradients.data() + model.block_begin[b]);
    client.push(static_cast<int>(b), std::span(&partial, 1));
  }
  return client.finish_step({.sequence = sequence, .tally = {{1.0}}, .stop = ""}, runs, deadline);
}

}  // namespace cohort::bench

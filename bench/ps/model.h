#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cohort/ps/client/client.h"
#include "cohort/ps/model/model_spec.h"

// A model whose every value after any number of steps is known in closed form: all quantities are
// small multiples of 1/4, so that f32 holds them exactly and no order of addition matters.
namespace cohort::bench {

constexpr float kRate = 0.25f;
constexpr std::uint64_t kBlockElements = 2'000'000;  // 8 MB of f32

inline float begin_value(std::uint64_t i) { return static_cast<float>(i % 5); }
// What worker w pushes at element i, in every step.
inline float gradient(int w, std::uint64_t i) {
  return static_cast<float>((i + static_cast<std::uint64_t>(w)) % 7) - 3;
}

// SGD; `momentum` 1 keeps the sum of all gradients so far. Blocks of at most kBlockElements.
ps::ModelSpec make_spec(std::uint64_t elements, int workers, ps::Policy::Mode mode,
                        double momentum);

// One worker's copy of the model, as one array, and its gradients.
struct WorkerModel {
  WorkerModel(const ps::ModelSpec& spec, int worker);

  ps::InitialState initial() const;
  std::vector<ps::BlockRun> runs();

  // Steps made so far by each worker, with momentum 0 in any order. Throws Error that names the
  // first wrong element.
  void check_sum(std::span<const std::uint64_t> steps) const;
  // All workers made this many steps together, with momentum 1.
  void check_momentum(int workers, std::uint64_t steps) const;

  std::vector<float> values, gradients;
  std::vector<std::uint64_t> block_begin;  // and the end of the last
};

// Begin, push every block, finish: one step.
ps::StepOutcome make_step(ps::Client& client, WorkerModel& model,
                          std::span<const ps::BlockRun> runs, std::uint64_t sequence, double weight,
                          Deadline deadline);

}  // namespace cohort::bench

#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

namespace cohort::parallel {

// While it lives, random numbers that LibTorch draws on this thread (dropout, rand, bernoulli_,
// ...) come from a generator of its own, seeded with `seed`: the same numbers for the same seed,
// whatever other threads draw and whatever was drawn before. How: for one replica in the process
// the default generators of the CPU and of `device` are seeded, and put back at the end; where
// replicas are threads of one process (`shared_process`), which would share the CPU's, calls on CPU
// tensors that name no generator are given the thread's. Both draw the same numbers from the same
// seed, those that torch::manual_seed(seed) would lead to. Scopes do not nest. Confined to its
// thread.
class RandomScope {
 public:
  RandomScope(std::uint64_t seed, torch::Device device, bool shared_process);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What this thread draws random numbers on `device` from: its RandomScope's generator, or LibTorch's
// default one.
at::Generator generator_of_this_thread(torch::Device device);

}  // namespace cohort::parallel

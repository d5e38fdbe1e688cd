#pragma once

#include <torch/torch.h>

#include <memory>

#include "cohort/base/deadline.h"
#include "cohort/collective/group.h"
#include "cohort/parallel/gradients/gradient_sync.h"

namespace cohort::parallel {

struct DistributedOptimizerOptions {
  NamedTensors named_parameters = {};  // for errors; without them parameters are numbered
  bool average = true;                 // over the ranks; false: their sum
  Compression compression = Compression::none;
  int backward_passes_per_step = 1;  // gradients of so many backwards are added up, then summed
  // Average only: contributions are divided by it before the sum, the sum by size / factor.
  double gradient_predivide_factor = 1;
  bool sparse_as_dense = false;  // an embedding's sparse gradient is sent as a dense one
  bool allow_unused = false;     // parameters without a gradient count as zero, not as an error
  bool uneven_data = false;      // ranks may run out of data at different times: see join()
  std::size_t bucket_bytes = GradientSyncOptions().bucket_bytes;
};

// Makes an ordinary LibTorch loop train with others, as Horovod's class of this name does:
//
//   torch::optim::SGD sgd(model->parameters(), 0.01 * context.size());
//   DistributedOptimizer optimizer(context, sgd);
//   for (...) {
//     optimizer.zero_grad();
//     loss.backward();     // gradients are averaged over the ranks while it goes on
//     optimizer.step();
//   }
//
// Every .grad is the average over the ranks when the last backward() of a step returns, so that
// what a loop does between backward() and step() (clipping, logging a norm) sees final values. The
// first backward after a step begins a new sum: gradients of the step before are dropped then.
//
// Gradients that no step wants, such as those that a generator's loss leaves in the discriminator,
// are given up by zero_grad(), by discard(), or by the module's own zero_grad(); pause() keeps them
// from being averaged at all.
//
// The first sum compares a checksum of the parameters over the ranks: ranks that start with
// different weights would never agree.
//
// Ranks that share a GPU within one process (mirrored replicas on one device) are the exception:
// LibTorch runs their backwards on one thread, so their gradients are averaged in step(), and a
// loop that changes them calls synchronize() first. A warning says so. Making one is collective
// where parameters are on a GPU.
//
// Threads: confined to one. Ownership: `optimizer` and `group` must outlive it. Every rank makes
// one for the same parameters, and steps as often as the others. Failure: InvalidInput for calls
// out of turn (a step without a backward, more backwards than backward_passes_per_step), for
// gradients that were changed before they were averaged, for ranks with different weights; what
// GradientSync and the group throw, also out of backward(). After an error of the latter the object
// is only good to destroy.
class DistributedOptimizer {
 public:
  DistributedOptimizer(collective::Group& group, torch::optim::Optimizer& optimizer,
                       DistributedOptimizerOptions options = {});
  ~DistributedOptimizer();
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  torch::optim::Optimizer& optimizer();

  // Drops the gradients of any backward since the last step, averaged or not.
  void zero_grad();

  // Gives up any backward since the last step, as if it had not been; .grad stays as it is. Every
  // rank must do it at the same point.
  void discard();

  // Returns when every parameter's .grad is the average over the ranks; does nothing where it is
  // already. Needed after fewer backwards than backward_passes_per_step: the rest of an epoch.
  void synchronize(Deadline deadline = Deadline::after(std::chrono::minutes(5)));

  // synchronize(), unless that was done, then the optimizer's step. A closure's gradients are
  // averaged each time it is called.
  torch::Tensor step(torch::optim::Optimizer::LossClosure closure = nullptr);

  // While one lives, step() never synchronizes.
  class SkipSynchronize {
   public:
    explicit SkipSynchronize(DistributedOptimizer& optimizer);
    ~SkipSynchronize();
    SkipSynchronize(const SkipSynchronize&) = delete;
    SkipSynchronize& operator=(const SkipSynchronize&) = delete;

   private:
    DistributedOptimizer& optimizer_;
    bool before_;
  };
  SkipSynchronize skip_synchronize() { return SkipSynchronize(*this); }

  // While one lives, backward() is neither counted nor averaged: .grad then holds what this rank
  // alone computed. For losses that pass through these parameters on the way to others. Not between
  // the backwards of one step.
  class Pause {
   public:
    explicit Pause(DistributedOptimizer& optimizer);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    DistributedOptimizer& optimizer_;
    bool before_;
  };
  Pause pause() { return Pause(*this); }

  // With uneven_data: this rank has no more data. It goes on stepping with the others, adding zero
  // to their gradients, until all have joined; all ranks then have the same parameters. Averages
  // are over all ranks still.
  void join(Deadline deadline = Deadline::after(std::chrono::hours(24)));

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::parallel

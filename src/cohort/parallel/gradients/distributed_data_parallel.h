#pragma once

#include <torch/torch.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "cohort/parallel/gradients/module_sync.h"

namespace cohort::parallel {

namespace detail {
template <typename Contained>
Contained module_in(const torch::nn::ModuleHolder<Contained>&);
template <typename Net>
struct ModuleOf {
  using Type = Net;
};
template <typename Net>
requires requires(const Net& net) { module_in(net); }
struct ModuleOf<Net> {
  using Type = decltype(module_in(std::declval<const Net&>()));
};
}  // namespace detail

// One rank's part of a batch of the whole job, for DistributedDataParallel::backward(): a DataLoader
// gives them (train/data/data_loader.h), and a program can fill one in itself.
template <typename B>
struct ShardedBatch {
  std::vector<B> shards;  // this rank's, ascending
  // By shard, what its loss is a mean of: samples, tokens. 0: there is nothing to compute.
  std::vector<double> weights;
  double total = 0;  // the weights of all shards of all ranks
};

// A module whose gradients are averaged over the ranks while backward() computes them, as PyTorch's
// class of this name does it. `Net` is a module class or a TORCH_MODULE holder:
//
//   cohort::DDP<Net> net(context, Net());
//   torch::optim::SGD optimizer(net->parameters(), 0.1);
//   for (...) {
//     optimizer.zero_grad();
//     loss(net(batch.data), batch.target).backward();   // .grad: the average over the ranks
//     optimizer.step();
//   }
//
// Making one gives all ranks rank 0's parameters and buffers. Any optimizer works unchanged. As in
// PyTorch, gradients add up until zero_grad(): a backward averages what is new, and the sums that
// no_sync() has left on each rank.
//
// Buffers (batch norm's running statistics) are the mean over the ranks after each backward that
// averages: all samples count, where PyTorch's class goes on with those of rank 0. Whole numbers
// become the largest, truth values those of rank 0. Batches are normalised by each rank's own
// statistics. All buffers are sent each time: for large constant ones set sync_buffers to false.
//
// The same bits at any number of ranks. With {.virtual_shards = M} a batch of the job is computed
// in M parts, of which each rank has its share, and the parts are added in one order:
//
//   cohort::DDP<Net> net(context, Net(), {.virtual_shards = 8});
//   for (const auto& batch : loader.steps()) {    // a DataLoader with as many virtual shards
//     optimizer.zero_grad();
//     double mean = net.backward(batch, [&](const Batch& shard) {
//       return loss(net(shard.data), shard.target);
//     });
//     optimizer.step();
//   }
//
// backward(batch, loss) calls `loss` for each own shard and makes .grad the mean over the batch, by
// the shards' weights; every shard begins with the buffers from before the step and with random
// numbers of its own. The gradients of a step are its own: what .grad held is dropped. It works
// without virtual_shards too (one shard a rank), and is then the way to do batches whose parts
// differ in size, or are empty.
//
// Alone (one rank) nothing is sent. A forward that autograd does not record (NoGradGuard), or whose
// backward is not called, costs nothing. Several in one program (a GAN) are independent.
// Where several ranks of a process share a GPU, only backward(batch, loss) works.
//
// Threads: confined to one. Ownership: shares the module; `group` must outlive it. The module's
// parameters are those of the beginning, on the devices of the beginning. Making one, and each
// backward that averages, is collective: every rank does as many, in the same order.
// Failure: InvalidInput for parameters that got no gradient (unless allow_unused), for a forward in
// training with virtual_shards outside backward(batch, loss), for options that cannot be; what the
// group throws, out of backward(). A backward() that failed before anything was sent is forgotten;
// after any other the next forward says so, and the object is only good to destroy.
template <typename Net>
class DistributedDataParallel {
 public:
  using Module = typename detail::ModuleOf<Net>::Type;

  DistributedDataParallel(collective::Group& group, std::shared_ptr<Module> module,
                          DistributedDataParallelOptions options = {})
      : module_(std::move(module)), sync_(std::make_unique<ModuleSync>(group, *module_, options)) {}
  DistributedDataParallel(collective::Group& group, const torch::nn::ModuleHolder<Module>& module,
                          DistributedDataParallelOptions options = {})
      : DistributedDataParallel(group, module.ptr(), options) {}

  // The module's own forward, whatever it takes and gives.
  template <typename... Arguments>
  decltype(auto) forward(Arguments&&... arguments) {
    sync_->before_forward();
    return module_->forward(std::forward<Arguments>(arguments)...);
  }
  template <typename... Arguments>
  decltype(auto) operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }

  // The module itself: parameters(), train(), eval(), to save it. Names have no prefix.
  Module* operator->() const { return module_.get(); }
  Module& operator*() const { return *module_; }
  const std::shared_ptr<Module>& ptr() const { return module_; }

  // One step's gradients: see above. `loss(shard)` gives the mean over the shard. Returns the mean of
  // the losses over the whole batch, on every rank. Whatever throws in `loss`, passes through.
  template <typename B, typename Loss>
  requires std::convertible_to<std::invoke_result_t<Loss&, const B&>, torch::Tensor>
  double backward(const ShardedBatch<B>& batch, Loss&& loss) {
    return sync_->backward(batch.weights, batch.total,
                           [&](std::size_t i) { return torch::Tensor(loss(batch.shards.at(i))); });
  }

  // The shards of a batch that this rank computes: [first, first + count).
  int first_shard() const { return sync_->first_shard(); }
  int shard_count() const { return sync_->shard_count(); }
  // Steps of backward(batch, loss), from which random numbers follow: set it when training goes on
  // from a checkpoint.
  std::int64_t steps() const { return sync_->steps(); }
  void set_steps(std::int64_t steps) { sync_->set_steps(steps); }

  // While one lives, backward() averages nothing: gradients add up on this rank. All ranks alike.
  class NoSync {
   public:
    explicit NoSync(ModuleSync& sync) : sync_(sync), before_(sync.set_no_sync(true)) {}
    ~NoSync() { sync_.set_no_sync(before_); }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    ModuleSync& sync_;
    bool before_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*sync_); }

 private:
  std::shared_ptr<Module> module_;
  std::unique_ptr<ModuleSync> sync_;
};

template <typename Holder>
requires requires(const Holder& holder) { detail::module_in(holder); }
DistributedDataParallel(collective::Group&, Holder, DistributedDataParallelOptions = {})
    ->DistributedDataParallel<Holder>;
template <typename Module>
DistributedDataParallel(collective::Group&, std::shared_ptr<Module>,
                        DistributedDataParallelOptions = {}) -> DistributedDataParallel<Module>;

template <typename Net>
using DDP = DistributedDataParallel<Net>;

}  // namespace cohort::parallel

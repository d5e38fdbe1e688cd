#pragma once

#include <torch/torch.h>

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "cohort/collective/group.h"
#include "cohort/parallel/tensors/named_tensors.h"

namespace cohort::parallel {

// Notices each backward() that reaches one of some parameters: `begin` is called before the first of
// their gradients is written, `end` when autograd has written all that this backward computes. What
// either throws, backward() throws; after an error of `begin` the backward counts as not begun.
//
// Threads: calls come from the thread that runs the backward, `begin` while a mutex is held (devices
// have autograd threads of their own); everything else is confined to the thread that calls
// backward(). Ownership: keeps the parameters; what the functions use must outlive it.
class BackwardWatch {
 public:
  BackwardWatch(const NamedTensors& parameters, std::function<void()> begin,
                std::function<void()> end);
  ~BackwardWatch();
  BackwardWatch(const BackwardWatch&) = delete;
  BackwardWatch& operator=(const BackwardWatch&) = delete;

  // While paused no backward is noticed. Returns what it was.
  bool pause(bool on) { return std::exchange(paused_, on); }
  // A backward has begun and not ended: it is running, or an error ended it.
  bool is_under_way() const { return under_way_; }
  // That backward failed: it is as if it had not begun.
  void forget() { under_way_ = false; }

 private:
  void on_gradient();
  void on_end();

  std::function<void()> begin_, end_;
  std::vector<std::pair<torch::Tensor, unsigned>> hooks_;
  std::mutex mutex_;
  bool under_way_ = false;
  bool paused_ = false;
};

// How ranks lie in processes, as far as it matters to what may be done inside backward(). Collective
// over the group.
struct ProcessSharing {
  bool process = false;  // another rank of the group is a thread of this process
  bool gpu = false;      // ... and has its parameters on the same GPU: one autograd thread for both
};
ProcessSharing find_sharing(collective::Group& group, const NamedTensors& parameters);

}  // namespace cohort::parallel

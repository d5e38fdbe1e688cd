#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "cohort/collective/group.h"

// Collectives on tensors, for people with their own loop. `group` is a Context (its workers), a
// Replica's group, or a sub-group (Group::subgroup: what Horovod calls a process set).
//
// Tensors may be on the CPU or a GPU, contiguous or not, and are read and written outside autograd.
// On GPUs all_reduce and broadcast go from GPU to GPU where the group has a device group
// (--transport), on all ranks alike: they are put on the current stream, and what they fail with comes from a later
// call. Everything else goes through the host's memory. The name of a function that changes its argument ends in `_`, as
// LibTorch's do. Every rank calls the same functions in the same order with matching shapes and
// types; a group of one returns its input.
//
// Threads, deadlines and failure as collective::Group's. InvalidInput: a type that cannot be
// reduced (int16, complex), and shapes that do not fit together, on every rank alike and with the
// group intact.
namespace cohort::parallel {

using collective::CallOptions;
using collective::ReduceOp;
using collective::ReduceOptions;

// An asynchronous all-reduce. Copyable; all copies mean the same call. Give it up only when the
// call is done: otherwise its memory stays until the program ends.
class PendingTensor {
 public:
  bool poll() const;  // true when it is over, well or badly
  // The result. Throws what the call threw; TimeoutError when the deadline passes first, after
  // which it may be called again.
  torch::Tensor wait(Deadline deadline = Deadline::never());

 private:
  friend PendingTensor all_reduce_async_(collective::Group&, torch::Tensor, ReduceOptions);
  struct State;
  std::shared_ptr<State> state_;
};

// The element-wise sum over all ranks, or what `options.op` says: {.op = ReduceOp::average}.
torch::Tensor all_reduce(collective::Group& group, const torch::Tensor& tensor,
                         ReduceOptions options = {});
void all_reduce_(collective::Group& group, torch::Tensor tensor, ReduceOptions options = {});

// The same without waiting. `tensor` must not be touched until wait() has returned; asynchronous
// calls run in the order in which they were made.
PendingTensor all_reduce_async(collective::Group& group, const torch::Tensor& tensor,
                               ReduceOptions options = {});
PendingTensor all_reduce_async_(collective::Group& group, torch::Tensor tensor,
                                ReduceOptions options = {});

// Several tensors as if they were one for each element type: one call instead of many. The same
// bits as one by one.
std::vector<torch::Tensor> grouped_all_reduce(collective::Group& group,
                                              const std::vector<torch::Tensor>& tensors,
                                              ReduceOptions options = {});
void grouped_all_reduce_(collective::Group& group, const std::vector<torch::Tensor>& tensors,
                         ReduceOptions options = {});

// The root's values, on every rank. Shapes are the same on all.
torch::Tensor broadcast(collective::Group& group, const torch::Tensor& tensor, int root,
                        CallOptions options = {});
void broadcast_(collective::Group& group, torch::Tensor tensor, int root, CallOptions options = {});

// All ranks' tensors one after another along the first dimension, which may differ between ranks. A
// scalar counts as one row.
torch::Tensor all_gather(collective::Group& group, const torch::Tensor& tensor,
                         CallOptions options = {});

// This rank's rows of the reduction over all ranks. Where the rows do not divide evenly, the first
// ranks get one more.
torch::Tensor reduce_scatter(collective::Group& group, const torch::Tensor& tensor,
                             ReduceOptions options = {});

// Sends the first splits[0] rows to rank 0, the next splits[1] to rank 1, ...; without splits, the
// same number to each.
struct AllToAllResult {
  torch::Tensor tensor;                       // what came, in rank order
  std::vector<std::int64_t> received_splits;  // rows from each rank
};
AllToAllResult all_to_all(collective::Group& group, const torch::Tensor& tensor,
                          std::vector<std::int64_t> splits = {}, CallOptions options = {});

void barrier(collective::Group& group, CallOptions options = {});

}  // namespace cohort::parallel

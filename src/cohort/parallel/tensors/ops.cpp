#include "cohort/parallel/tensors/ops.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/collective/device/device_group.h"
#include "cohort/parallel/cuda/device_streams.h"
#include "cohort/parallel/devices/device_calls.h"
#include "cohort/parallel/tensors/tensor_staging.h"

namespace cohort::parallel {

struct PendingTensor::State {
  explicit State(torch::Tensor tensor) : result(std::move(tensor)) {}
  ~State() {
    if (!work || work->poll()) return;
    log::warning("an asynchronous all_reduce was given up before it was done");
    new StagedTensor(*staged);  // the call still writes there
  }

  torch::Tensor result;
  // Neither is there where the call went to a GPU's stream: it is done for all that follows there.
  std::optional<StagedTensor> staged;
  std::optional<collective::Work> work;
  bool finished = false;
};

bool PendingTensor::poll() const { return !state_->work || state_->work->poll(); }

torch::Tensor PendingTensor::wait(Deadline deadline) {
  if (!state_->work) return state_->result;
  state_->work->wait(deadline);
  if (!std::exchange(state_->finished, true)) state_->staged->finish();
  return state_->result;
}

PendingTensor all_reduce_async_(collective::Group& group, torch::Tensor tensor,
                                ReduceOptions options) {
  PendingTensor pending;
  pending.state_ = std::make_shared<PendingTensor::State>(std::move(tensor));
  if (has_device_group(group, pending.state_->result)) {
    all_reduce_(group, pending.state_->result, options);
    return pending;
  }
  const StagedTensor& staged = pending.state_->staged.emplace(pending.state_->result, true);
  pending.state_->work =
      group.all_reduce_async(staged.data(), staged.data(), staged.count(), staged.dtype(), options);
  return pending;
}

PendingTensor all_reduce_async(collective::Group& group, const torch::Tensor& tensor,
                               ReduceOptions options) {
  return all_reduce_async_(group, tensor.detach().clone(), options);
}

void all_reduce_(collective::Group& group, torch::Tensor tensor, ReduceOptions options) {
  if (tensor.defined() && has_device_group(group, tensor)) {
    check_reducible(tensor);
    const torch::Tensor values = tensor.detach().contiguous();
    all_reduce_on_device(group, values, options);
    if (values.data_ptr() != tensor.data_ptr()) tensor.detach().copy_(values);
    return;
  }
  StagedTensor staged(tensor, true);
  group.all_reduce(staged.data(), staged.data(), staged.count(), staged.dtype(), options);
  staged.finish();
}

torch::Tensor all_reduce(collective::Group& group, const torch::Tensor& tensor,
                         ReduceOptions options) {
  torch::Tensor result = tensor.detach().clone();
  all_reduce_(group, result, options);
  return result;
}

void grouped_all_reduce_(collective::Group& group, const std::vector<torch::Tensor>& tensors,
                         ReduceOptions options) {
  const torch::NoGradGuard no_grad;
  std::map<std::pair<torch::ScalarType, std::string>, std::vector<torch::Tensor>> by_type;
  for (const torch::Tensor& tensor : tensors) {
    check_reducible(tensor);
    const bool stays = has_device_group(group, tensor);
    by_type[{tensor.scalar_type(), stays ? tensor.device().str() : "cpu"}].push_back(
        tensor.detach());
  }
  for (const auto& [kind, same] : by_type) {
    std::int64_t total = 0;
    for (const torch::Tensor& tensor : same) total += tensor.numel();
    const torch::Tensor flat = torch::empty(
        {total}, torch::TensorOptions().dtype(kind.first).device(torch::Device(kind.second)));
    std::vector<torch::Tensor> places;
    std::int64_t begin = 0;
    for (const torch::Tensor& tensor : same) {
      places.push_back(flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()).copy_(tensor));
      begin += tensor.numel();
    }
    all_reduce_(group, flat, options);
    for (std::size_t i = 0; i < same.size(); ++i) torch::Tensor(same[i]).copy_(places[i]);
  }
}

std::vector<torch::Tensor> grouped_all_reduce(collective::Group& group,
                                              const std::vector<torch::Tensor>& tensors,
                                              ReduceOptions options) {
  std::vector<torch::Tensor> results;
  for (const torch::Tensor& tensor : tensors) results.push_back(tensor.detach().clone());
  grouped_all_reduce_(group, results, options);
  return results;
}

void broadcast_(collective::Group& group, torch::Tensor tensor, int root, CallOptions options) {
  if (tensor.defined() && has_device_group(group, tensor)) {
    const torch::Tensor values = tensor.detach().contiguous();
    group.device()->broadcast(values.data_ptr(), values.nbytes(), collective::DataType::u8, root,
                              current_stream(values.device()));
    if (values.data_ptr() != tensor.data_ptr()) tensor.detach().copy_(values);
    return;
  }
  StagedTensor staged(tensor, false);
  group.broadcast(staged.data(), staged.count(), staged.dtype(), root, options);
  staged.finish();
}

torch::Tensor broadcast(collective::Group& group, const torch::Tensor& tensor, int root,
                        CallOptions options) {
  torch::Tensor result = tensor.detach().clone();
  broadcast_(group, result, root, options);
  return result;
}

void barrier(collective::Group& group, CallOptions options) { group.barrier(options); }

}  // namespace cohort::parallel

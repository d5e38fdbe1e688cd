#include "cohort/parallel/devices/device_calls.h"

#include "cohort/base/error.h"
#include "cohort/collective/device/device_group.h"
#include "cohort/parallel/cuda/device_streams.h"
#include "cohort/parallel/devices/device_shard_sum.h"
#include "cohort/parallel/element_types.h"

namespace cohort::parallel {

using collective::ReduceOp;

bool has_device_group(collective::Group& group, const torch::Tensor& tensor) {
  return tensor.is_cuda() && group.size() > 1 && group.device() != nullptr;
}

void all_reduce_on_device(collective::Group& group, const torch::Tensor& tensor,
                          const collective::ReduceOptions& options) {
  const torch::NoGradGuard no_grad;
  const bool averages = options.op == ReduceOp::average;
  if (!tensor.is_floating_point() && (options.pre_scale != 1 || options.post_scale != 1))
    throw InvalidInput(fmt::format("{} on a GPU cannot be scaled in an all_reduce",
                                   torch::toString(tensor.scalar_type())),
                       {.advice = "Scale it before or after the call."});
  torch::Tensor values = tensor.detach().view({-1});
  if (options.pre_scale != 1) values.mul_(options.pre_scale);
  if (tensor.is_floating_point() && (averages || options.op == ReduceOp::sum)) {
    const DeviceShardSum sum(group.device(), group.rank(), group.size(), group.size(), {},
                             /*any_order=*/false);
    sum.all_reduce({&values, 1}, values, options.post_scale);
    if (averages) values.div_(group.size());
    return;
  }
  group.device()->all_reduce(
      values.data_ptr(), values.data_ptr(), static_cast<std::size_t>(values.numel()),
      data_type_of(values.scalar_type()), options.op, current_stream(values.device()));
  if (options.post_scale != 1) values.mul_(options.post_scale);
}

}  // namespace cohort::parallel

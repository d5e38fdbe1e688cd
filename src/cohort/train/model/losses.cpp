#include "cohort/train/model/losses.h"

#include "cohort/base/error.h"
#include "cohort/train/checkpoint/safetensors_layout.h"

namespace cohort::train {

Loss masked_mean(const torch::Tensor& each, const torch::Tensor& mask) {
  if (each.sizes() != mask.sizes())
    throw InvalidInput(fmt::format("masked_mean: the values are of shape {}, the mask of {}",
                                   shape_text(each.sizes().vec()), shape_text(mask.sizes().vec())),
                       {.advice = "Give one element of the mask for each value."});
  const torch::Tensor weights = mask.to(each.scalar_type());
  const torch::Tensor sum = mask.sum(torch::kFloat64).detach();
  // A value that is not finite where nothing is set must not spoil the sum.
  const torch::Tensor counted = (each * weights).masked_fill(mask.eq(0), 0).sum();
  return {
      .mean = counted / torch::where(sum > 0, sum, torch::ones_like(sum)).to(each.scalar_type()),
      .weight = sum};
}

Loss token_cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets,
                         std::int64_t ignored) {
  const std::vector<std::int64_t> shape = logits.sizes().vec();
  if (shape.empty() || logits.sizes().slice(0, shape.size() - 1) != targets.sizes())
    throw InvalidInput(fmt::format("token_cross_entropy: logits of shape {} do not go with targets "
                                   "of shape {}",
                                   shape_text(shape), shape_text(targets.sizes().vec())),
                       {.advice = "Give logits [..., classes] and targets [...]."});
  const torch::Tensor flat = targets.reshape({-1});
  const torch::Tensor sum = torch::cross_entropy_loss(logits.reshape({-1, shape.back()}), flat, {},
                                                      at::Reduction::Sum, ignored);
  const torch::Tensor tokens = flat.ne(ignored).sum();
  return {.mean = sum / tokens.clamp_min(1).to(sum.scalar_type()),
          .weight = tokens,
          .output = logits,
          .target = targets};
}

}  // namespace cohort::train

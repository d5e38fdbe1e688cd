#include "cohort/parallel/sharding/gradient_shares.h"

#include "cohort/parallel/element_types.h"

namespace cohort::parallel {

GradientShares::GradientShares(const std::vector<torch::Tensor>& parameters,
                               const Partition& partition, int rank) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& parameter = parameters[i];
    if (!partition.is_cut(i) || !parameter.requires_grad() ||
        accumulator_of(parameter.scalar_type()) != parameter.scalar_type())
      continue;
    const auto count = static_cast<std::int64_t>(partition.slice(i, rank).count);
    shares_.emplace(parameter.unsafeGetTensorImpl(),
                    Share{partition.counts(i),
                          torch::zeros({count}, parameter.options().requires_grad(false))});
  }
}

const GradientShares::Share* GradientShares::find(const torch::Tensor& parameter) const {
  const auto found = shares_.find(parameter.unsafeGetTensorImpl());
  return found == shares_.end() ? nullptr : &found->second;
}

}  // namespace cohort::parallel

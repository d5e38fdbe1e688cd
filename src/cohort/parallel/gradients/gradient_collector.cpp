#include "cohort/parallel/gradients/gradient_collector.h"

#include <algorithm>
#include <unordered_set>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::parallel {

namespace {

// Drops what needs no gradient and what comes twice: a parameter that two modules share has one
// gradient.
NamedTensors select(const NamedTensors& given) {
  NamedTensors selected;
  std::unordered_set<const void*> seen;
  for (const auto& [name, parameter] : given) {
    if (!parameter.defined() || !parameter.requires_grad()) continue;
    if (!parameter.is_leaf())
      throw InvalidInput(fmt::format("{} is computed from other tensors", name),
                         {.advice = "Give parameters: leaf tensors that require gradients."});
    if (!parameter.is_floating_point())
      throw InvalidInput(fmt::format("{} is of type {}, whose gradients cannot be summed", name,
                                     torch::toString(parameter.scalar_type())));
    if (seen.insert(parameter.unsafeGetTensorImpl()).second) selected.emplace_back(name, parameter);
  }
  return selected;
}

}  // namespace

GradientCollector::GradientCollector(int rank, const NamedTensors& parameters,
                                     const CollectorOptions& options, collective::ShardRange own)
    : allow_unused_(options.allow_unused), accumulates_(options.accumulates), turns_(rank, own) {
  for (auto& [name, parameter] : select(parameters)) {
    names_.push_back(name);
    parameters_.push_back(parameter);
  }
}

GradientCollector::Problem GradientCollector::missing(const std::vector<std::size_t>& parameters,
                                                      int shard) const {
  constexpr std::size_t kMost = 10;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(parameters.size(), kMost); ++i)
    names.push_back(names_[parameters[i]]);
  std::string text = join(names, ", ");
  if (parameters.size() > kMost) text += fmt::format(" and {} more", parameters.size() - kMost);
  return {fmt::format("no gradient for {} in shard {}", text, shard),
          "Use every parameter in the loss, or allow unused ones (allow_unused)."};
}

GradientCollector::Problem GradientCollector::second_gradient(std::size_t parameter) const {
  return {fmt::format("{} got a second gradient in shard {}", names_[parameter], turns_.shard()),
          "Run all backwards of a shard but the last under GradientSync::NoSync."};
}

GradientCollector::Problem GradientCollector::sparse_gradient(std::size_t parameter) const {
  return {fmt::format("the gradient of {} is sparse", names_[parameter]),
          "Make it dense (for an embedding: sparse = false)."};
}

void GradientCollector::raise(const Problem& problem) {
  throw InvalidInput(problem.reason, {.during = "GradientSync::finish", .advice = problem.advice});
}

}  // namespace cohort::parallel

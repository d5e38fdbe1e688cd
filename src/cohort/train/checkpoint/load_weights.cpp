#include "cohort/train/checkpoint/load_weights.h"

#include <fmt/format.h>

#include "cohort/base/error.h"
#include "cohort/train/checkpoint/checkpoint.h"
#include "cohort/train/checkpoint/module_state.h"

namespace cohort::train {
namespace {

// The part that a Trainer saves a model under.
constexpr std::string_view kModelPrefix = "model.";

TensorMap weights_of(const Checkpoint& checkpoint) {
  TensorMap weights;
  for (const auto& [name, tensor] : checkpoint.tensors)
    if (name.starts_with(kModelPrefix)) weights.emplace(name.substr(kModelPrefix.size()), tensor);
  return weights;
}

TensorMap read_weights(const std::filesystem::path& path) {
  if (path.extension() == ".json") return weights_of(load_checkpoint(path));
  if (std::filesystem::is_directory(path)) {
    if (const auto latest = load_latest(path)) return weights_of(*latest);
    throw InvalidInput(fmt::format("{} has no good checkpoint", path.string()),
                       {.advice = "Give a folder that a ModelCheckpoint has written to."});
  }
  TensorMap tensors = load_safetensors(path).tensors;
  // The tensors of a checkpoint, given by themselves, have the optimizer's beside them.
  Checkpoint as_checkpoint{.state = {}, .tensors = tensors};
  TensorMap weights = weights_of(as_checkpoint);
  return weights.empty() ? tensors : weights;
}

bool fits(const torch::Tensor& value, const torch::Tensor& target) {
  return value.sizes() == target.sizes() && value.scalar_type() == target.scalar_type();
}

}  // namespace

std::vector<std::string> load_weights(torch::nn::Module& module, const std::filesystem::path& path,
                                      const LoadWeightsOptions& options) {
  const TensorMap weights = read_weights(path);
  if (options.strict) {
    restore_module(module, weights);
    return {};
  }
  TensorMap chosen = capture_module(module);  // what does not fit stays
  std::vector<std::string> skipped;
  std::size_t taken = 0;
  for (auto& [name, target] : chosen) {
    const auto found = weights.find(name);
    if (found == weights.end() || !fits(found->second, target)) {
      skipped.push_back(name);
      continue;
    }
    target = found->second;
    ++taken;
  }
  for (const auto& [name, value] : weights)
    if (!chosen.contains(name)) skipped.push_back(name);
  if (taken == 0)
    throw InvalidInput(fmt::format("nothing in {} fits the model {}", path.string(), module.name()),
                       {.advice = "Compare the names and shapes of the two."});
  restore_module(module, chosen);
  return skipped;
}

}  // namespace cohort::train

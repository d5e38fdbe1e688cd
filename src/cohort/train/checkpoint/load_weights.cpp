#include "cohort/train/checkpoint/load_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/train/checkpoint/module_state.h"
#include "cohort/train/checkpoint/safetensors.h"
#include "cohort/train/checkpoint/weights_file.h"

namespace cohort::train {
namespace {

bool fits(const torch::Tensor& value, const torch::Tensor& target) {
  return value.sizes() == target.sizes() && value.scalar_type() == target.scalar_type();
}

bool is_same_memory(const torch::Tensor& a, const torch::Tensor& b) {
  return a.numel() > 0 && a.data_ptr() == b.data_ptr() && fits(a, b) && a.strides() == b.strides();
}

torch::Tensor swapped(const std::string& name, const torch::Tensor& tensor) {
  if (tensor.dim() == 2) return tensor.t();
  throw InvalidInput(
      fmt::format("'{}' has {} dimensions, and the mapping's transposed names it", name,
                  tensor.dim()),
      {.advice = "Name matrices only: '*.weight' also matches the weights of norms."});
}

// The file's tensors by the module's names, as the module keeps them.
TensorMap apply_mapping(const TensorMap& file, const WeightNames& names) {
  TensorMap weights;
  std::map<std::string, std::string> origins;
  for (const auto& [file_name, tensor] : file) {
    const auto name = names.module_name(file_name);
    if (!name) continue;
    const auto [origin, is_new] = origins.emplace(*name, file_name);
    if (!is_new)
      throw InvalidInput(fmt::format("'{}' and '{}' of the file are both the model's '{}'",
                                     origin->second, file_name, *name),
                         {.advice = "Make the mapping's renames tell them apart."});
    weights.emplace(*name, names.is_transposed(*name) ? swapped(*name, tensor) : tensor);
  }
  return weights;
}

void convert_types(TensorMap& weights, const TensorMap& own) {
  for (auto& [name, tensor] : weights) {
    const auto target = own.find(name);
    if (target != own.end() && tensor.is_floating_point() && target->second.is_floating_point())
      tensor = tensor.to(target->second.scalar_type());
  }
}

// A tensor under two names is one: where the file has it once, that is the value of both.
void fill_tied(TensorMap& weights, const TensorMap& own, const std::filesystem::path& path) {
  const TensorMap given = weights;
  for (const auto& [name, target] : own)
    for (const auto& [twin, value] : given) {
      const auto other = own.find(twin);
      if (other == own.end() || twin == name || !is_same_memory(target, other->second)) continue;
      const auto [found, filled] = weights.emplace(name, value);
      if (!filled && fits(found->second, value) && !torch::equal(found->second, value))
        throw InvalidInput(
            fmt::format("'{}' and '{}' are one tensor in the model and two different ones in '{}'",
                        name, twin, path.string()),
            {.advice = "Do not tie them, or leave one out: a rename to an empty name."});
    }
}

}  // namespace

std::vector<std::string> load_weights(torch::nn::Module& module, const std::filesystem::path& path,
                                      const LoadWeightsOptions& options) {
  TensorMap chosen = capture_module(module);  // what does not fit stays
  TensorMap weights = apply_mapping(read_weights(path), WeightNames(options.mapping));
  if (options.convert) convert_types(weights, chosen);
  fill_tied(weights, chosen, path);
  if (options.strict) {
    try {
      restore_module(module, weights);
    } catch (const InvalidInput& error) {
      throw InvalidInput(
          fmt::format("'{}': {}", path.string(), error.message()),
          {.advice = "Build the model with the options that it was saved with; for another "
                     "program's file give a mapping, convert for another precision, or strict = "
                     "false to take what fits."});
    }
    return {};
  }
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

void save_weights(const torch::nn::Module& module, const std::filesystem::path& path,
                  const SaveWeightsOptions& options) {
  const WeightNames names(options.mapping);
  TensorMap tensors;
  for (const auto& [name, tensor] : capture_module(module)) {
    torch::Tensor value = names.is_transposed(name) ? swapped(name, tensor) : tensor;
    if (options.type && value.is_floating_point()) value = value.to(*options.type);
    tensors.emplace(names.file_name(name), value);
  }
  save_safetensors(path, tensors, {{"format", "pt"}});
}

}  // namespace cohort::train

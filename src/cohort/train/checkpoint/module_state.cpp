#include "cohort/train/checkpoint/module_state.h"

#include <fmt/format.h>

#include <vector>

#include "cohort/base/crypto/sha256_stream.h"
#include "cohort/base/data/byte_io.h"
#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::train {
namespace {

std::string describe(const torch::Tensor& tensor) {
  return fmt::format("{} {}", c10::toString(tensor.scalar_type()),
                     shape_text(tensor.sizes().vec()));
}

}  // namespace

TensorMap capture_module(const torch::nn::Module& module) {
  TensorMap tensors;
  for (const auto& item : module.named_parameters(/*recurse=*/true))
    if (item.value().defined()) tensors.emplace(item.key(), item.value().detach());
  for (const auto& item : module.named_buffers(/*recurse=*/true))
    if (item.value().defined()) tensors.emplace(item.key(), item.value().detach());
  return tensors;
}

void restore_module(torch::nn::Module& module, const TensorMap& tensors) {
  auto own = capture_module(module);
  std::vector<std::string> complaints;
  for (const auto& [name, target] : own) {
    auto found = tensors.find(name);
    if (found == tensors.end())
      complaints.push_back(fmt::format("'{}' is missing", name));
    else if (found->second.sizes() != target.sizes() ||
             found->second.scalar_type() != target.scalar_type())
      complaints.push_back(fmt::format("'{}' is {}, the model has {}", name,
                                       describe(found->second), describe(target)));
  }
  for (const auto& [name, value] : tensors)
    if (!own.contains(name)) complaints.push_back(fmt::format("the model has no '{}'", name));
  if (!complaints.empty())
    throw InvalidInput(
        fmt::format("the saved state is not of this model: {}", join(complaints, "; ")),
        {.advice = "Build the model with the options that it was saved with."});
  torch::NoGradGuard no_grad;
  for (auto& [name, target] : own) target.copy_(tensors.at(name));
}

std::string fingerprint(const TensorMap& tensors) {
  Sha256 hash;
  for (const auto& [name, tensor] : tensors) {
    std::string head;
    ByteWriter out(head);
    out.text(name).text(name_of(dtype_of(name, tensor))).integer(tensor.dim());
    for (auto extent : tensor.sizes()) out.integer(extent);
    hash.update(head);
    const auto held = on_cpu(tensor);
    hash.update(bytes_of(held));
  }
  return to_hex(hash.finish());
}

std::string fingerprint(const torch::nn::Module& module) {
  return fingerprint(capture_module(module));
}

}  // namespace cohort::train

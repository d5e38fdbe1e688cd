#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <string>
#include <vector>

namespace cohort::train {

struct LoadWeightsOptions {
  bool strict = true;  // every parameter and buffer must be there, and nothing else
};

// A warm start: gives `module` the weights and buffers of an earlier training, and nothing else of
// it (no step, no optimizer). `path` is a checkpoint's step-*.json, a folder of checkpoints, of
// which the newest good one counts, or any .safetensors file. In a job it is enough that the chief
// does it: fit() and broadcast_parameters() give the others its values.
//
// Returns the names that were skipped: of the module those that the file does not have or has in
// another shape or type, and of the file those that the module does not have. InvalidInput, with
// nothing changed, when `strict` and there are any, when nothing fits, or when there is no such
// file.
std::vector<std::string> load_weights(torch::nn::Module& module, const std::filesystem::path& path,
                                      const LoadWeightsOptions& options = {});

}  // namespace cohort::train

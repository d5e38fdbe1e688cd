#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cohort/train/checkpoint/weight_names.h"

namespace cohort::train {

struct LoadWeightsOptions {
  bool strict = true;          // every parameter and buffer must be there, and nothing else
  WeightMapping mapping = {};  // where the file has other names, or matrices the other way round
  // Takes floating-point tensors of another precision (f16, bf16, f32, f64) as the module's own.
  bool convert = false;
};

// A warm start: gives `module` the weights and buffers of an earlier training, or of another
// program, and nothing else of it (no step, no optimizer). `path` is
//   - a checkpoint's step-*.json, or a folder of checkpoints, of which the newest good one counts;
//   - any .safetensors file, or a *.safetensors.index.json with the files that it names beside it;
//   - a folder as model hubs have, with a model.safetensors or its index.
// In a job it is enough that the chief does it: fit() and broadcast_parameters() give the others
// its values.
//
// A tensor that the module has under two names (tied weights) may be in the file under either.
//
// Returns the names that were skipped: of the module those that the file does not have or has in
// another shape or type, and of the file those that the module does not have. InvalidInput, with
// nothing changed, when `strict` and there are any, when nothing fits, when two names of the file
// are one of the module's, or when there is no such file.
std::vector<std::string> load_weights(torch::nn::Module& module, const std::filesystem::path& path,
                                      const LoadWeightsOptions& options = {});

struct SaveWeightsOptions {
  WeightMapping mapping = {};  // as it would be given to load_weights() for the same file
  std::optional<torch::ScalarType> type;  // of floating-point tensors in the file: as they are
};

// Writes the module's parameters and buffers to a .safetensors file that Python's `safetensors`
// and load_weights() read, in one step. Tied tensors are written under each of their names.
// InvalidInput for names that the mapping does not lead back from; SystemError.
void save_weights(const torch::nn::Module& module, const std::filesystem::path& path,
                  const SaveWeightsOptions& options = {});

}  // namespace cohort::train

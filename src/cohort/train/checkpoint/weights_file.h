#pragma once

#include <filesystem>

#include "cohort/train/checkpoint/safetensors.h"

namespace cohort::train {

// The model's tensors in `path`: of a checkpoint (its step-*.json, or a folder of checkpoints, of
// which the newest good one counts), of a .safetensors file, of a *.safetensors.index.json with the
// files it names beside it, or of a folder with a model.safetensors or its index, as model hubs
// have. InvalidInput or SystemError where there is none or it is damaged; concurrent calls do not
// meet.
TensorMap read_weights(const std::filesystem::path& path);

}  // namespace cohort::train

#pragma once

#include <torch/torch.h>

#include <string>

#include "cohort/train/checkpoint/safetensors.h"

// A module's parameters and buffers by name. Call from the thread that trains the module, between
// steps.
namespace cohort::train {

// The parameters and buffers themselves, detached: they share the module's memory. Undefined ones
// (a layer without bias) are left out.
TensorMap capture_module(const torch::nn::Module& module);

// Copies the values into the module's own tensors, which keep their memory, device and strides.
// InvalidInput names every entry that is missing, too many, or of another shape or type; the module
// is then unchanged.
void restore_module(torch::nn::Module& module, const TensorMap& tensors);

// SHA-256 in hexadecimal over names, types, shapes and bytes of all parameters and buffers, in the
// order of their names: equal for two modules exactly when every bit of their state is.
std::string fingerprint(const torch::nn::Module& module);
std::string fingerprint(const TensorMap& tensors);

}  // namespace cohort::train

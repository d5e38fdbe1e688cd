#pragma once

#include <torch/torch.h>

#include <functional>

#include "cohort/train/options/options.h"

namespace cohort::train {

// How LibTorch computes on GPUs in this process, and how the module's weights lie there, as the
// options say. A deterministic training takes only operations that give the same bits each time;
// another one lets LibTorch try algorithms of convolutions and keep the fastest. Call it before the
// first product of matrices on the GPU: cuBLAS reads its part of this when it starts.
void prepare_for_gpu(torch::nn::Module& module, const TrainerOptions& options);

// Calls it. An operation that LibTorch cannot do in a deterministic way becomes an InvalidInput that
// names the operation.
void with_refusals_named(const std::function<void()>& body);

}  // namespace cohort::train

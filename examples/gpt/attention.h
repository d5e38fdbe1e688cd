#pragma once

#include <torch/torch.h>

namespace examples {

// Causal attention over (batch, heads, tokens, width of a head): each token sees itself and those
// before it. `dropout`: the share of attention weights that are dropped; 0 in evaluation.
//
// LibTorch's own kernel (flash attention where the device, type and dropout allow) from 2.0 on;
// before, plain_attention(). Pure functions but for the random numbers of dropout.
torch::Tensor causal_attention(const torch::Tensor& query, const torch::Tensor& key,
                               const torch::Tensor& value, double dropout);

// The same in products of matrices, with all weights in memory.
torch::Tensor plain_attention(const torch::Tensor& query, const torch::Tensor& key,
                              const torch::Tensor& value, double dropout);

// On a GPU: from now on only kernels whose sums come in the same order every time, also in
// attention's backward, which is slower. Call it before the GPU is first used.
void use_repeatable_kernels();

}  // namespace examples

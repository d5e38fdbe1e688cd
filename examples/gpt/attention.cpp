#include "attention.h"

#include <torch/version.h>

#include <cmath>
#include <cstdlib>
#include <limits>

namespace examples {

torch::Tensor plain_attention(const torch::Tensor& query, const torch::Tensor& key,
                              const torch::Tensor& value, double dropout) {
  const std::int64_t tokens = query.size(2);
  const double scale = 1 / std::sqrt(static_cast<double>(query.size(3)));
  const auto unseen = torch::ones({tokens, tokens}, query.options().dtype(torch::kBool)).triu(1);
  auto weights = torch::matmul(query * scale, key.transpose(2, 3))
                     .masked_fill(unseen, -std::numeric_limits<double>::infinity())
                     .softmax(-1);
  if (dropout > 0) weights = torch::dropout(weights, dropout, /*train=*/true);
  return torch::matmul(weights, value);
}

#if TORCH_VERSION_MAJOR >= 2
torch::Tensor causal_attention(const torch::Tensor& query, const torch::Tensor& key,
                               const torch::Tensor& value, double dropout) {
  return at::scaled_dot_product_attention(query, key, value, /*attn_mask=*/{}, dropout,
                                          /*is_causal=*/true);
}
#else
torch::Tensor causal_attention(const torch::Tensor& query, const torch::Tensor& key,
                               const torch::Tensor& value, double dropout) {
  return plain_attention(query, key, value, dropout);
}
#endif

void use_repeatable_kernels() {
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 5)
  at::globalContext().setSDPUseCuDNN(false);  // it heeds only a request that is no warning
#endif
}

}  // namespace examples

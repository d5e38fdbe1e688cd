#include "cohort/parallel/tensors/matrix_products.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

#include "cohort/base/error.h"

namespace cohort::parallel {
namespace {

// Below it starting oneDNN costs more than it saves: measured on an AMD EPYC with AVX-512.
constexpr std::int64_t kLeastProducts = std::int64_t{1} << 21;
constexpr std::int64_t kLeastSide = 4;

std::atomic<bool> takes_onednn = false;

// Registered by LibTorch's oneDNN part: y = x w^T + b for a layer's f32 tensors as they are. Called
// by its schema, as the C++ types of its arguments are not the same in all versions.
std::optional<c10::OperatorHandle> find_onednn_product() {
  return c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
}

bool is_matrix(const at::Tensor& tensor) {
  return tensor.dim() == 2 && tensor.scalar_type() == at::kFloat && tensor.device().is_cpu() &&
         tensor.layout() == at::kStrided;
}

bool is_for_onednn(const at::Tensor& a, const at::Tensor& b) {
  if (!takes_onednn.load(std::memory_order_relaxed) || !is_matrix(a) || !is_matrix(b) ||
      a.size(1) != b.size(0))
    return false;
  const std::int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  return std::min({m, k, n}) >= kLeastSide && m * k >= kLeastProducts / n &&
         at::globalContext().userEnabledMkldnn();
}

at::Tensor onednn_product(const at::Tensor& a, const at::Tensor& b,
                          const std::optional<at::Tensor>& bias) {
  static const c10::OperatorHandle operation = find_onednn_product().value();
  at::Tensor weight = b.t();
  // Rows or columns without gaps are read where they lie.
  if (!weight.unsafeGetTensorImpl()->is_non_overlapping_and_dense()) weight = weight.contiguous();
  torch::jit::Stack stack;
  torch::jit::push(stack, a, weight, bias, "none", c10::List<std::optional<at::Scalar>>(), "");
  operation.callBoxed(&stack);
  return torch::jit::pop(stack).toTensor();
}

at::Tensor multiply(const at::Tensor& a, const at::Tensor& b) {
  return is_for_onednn(a, b) ? onednn_product(a, b, std::nullopt) : at::cpu::mm(a, b);
}

// A layer: a bias for each column.
at::Tensor multiply_and_add(const at::Tensor& bias, const at::Tensor& a, const at::Tensor& b,
                            const at::Scalar& beta, const at::Scalar& alpha) {
  const bool is_layer = bias.dim() == 1 && bias.size(0) == b.size(-1) && bias.is_contiguous() &&
                        bias.scalar_type() == at::kFloat && bias.device().is_cpu() &&
                        bias.layout() == at::kStrided && beta.equal(1) && alpha.equal(1);
  return is_layer && is_for_onednn(a, b) ? onednn_product(a, b, bias)
                                         : at::cpu::addmm(bias, a, b, beta, alpha);
}

// LibTorch warns of any kernel that takes the place of its own.
class NoWarnings : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

void register_kernels() {
  NoWarnings none;
  const c10::WarningUtils::WarningHandlerGuard quiet(&none);
  // Never destroyed: other threads may compute until the very end.
  static auto& kernels =
      *new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
  kernels.impl("mm", TORCH_FN(multiply));
  kernels.impl("addmm", TORCH_FN(multiply_and_add));
}

bool mkl_leaves_half_unused() {
  return at::hasMKL() && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_is("intel") == 0;
}

}  // namespace

MatrixProducts parse_matrix_products(const std::string& text) {
  for (const auto products :
       {MatrixProducts::automatic, MatrixProducts::torch, MatrixProducts::onednn})
    if (text == to_string(products)) return products;
  throw InvalidInput("matrix products must be auto, torch or onednn, got '" + text + "'");
}

std::string to_string(MatrixProducts products) {
  if (products == MatrixProducts::automatic) return "auto";
  return products == MatrixProducts::torch ? "torch" : "onednn";
}

MatrixProducts choose_matrix_products(MatrixProducts wanted) {
  const bool has_onednn = find_onednn_product().has_value();
  if (wanted == MatrixProducts::onednn && !has_onednn)
    throw InvalidInput("matrix products by onednn are asked for, but this LibTorch has no oneDNN",
                       {.advice = "Use auto or torch, or a LibTorch that is built with oneDNN."});
  const bool onednn = wanted == MatrixProducts::onednn || (wanted == MatrixProducts::automatic &&
                                                           has_onednn && mkl_leaves_half_unused());
  if (onednn) {
    static std::once_flag registered;
    std::call_once(registered, register_kernels);
  }
  takes_onednn = onednn;
  return onednn ? MatrixProducts::onednn : MatrixProducts::torch;
}

}  // namespace cohort::parallel

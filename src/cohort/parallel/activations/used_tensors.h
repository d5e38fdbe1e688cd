#pragma once

#include <ATen/record_function.h>
#include <torch/torch.h>

#include <memory>
#include <unordered_set>
#include <vector>

namespace cohort::parallel {

// While it lives, notes which tensors that require gradients operations of LibTorch use on this
// thread. Made where grad mode is off, that is what comes from outside: results of operations do
// not require gradients there. Scopes nest. Confined to its thread.
class UsedTensors {
 public:
  UsedTensors();
  ~UsedTensors();
  UsedTensors(const UsedTensors&) = delete;
  UsedTensors& operator=(const UsedTensors&) = delete;

  void leave_out(const torch::Tensor& tensor) { seen_.insert(tensor.unsafeGetTensorImpl()); }
  const std::vector<torch::Tensor>& tensors() const { return tensors_; }  // in order of first use

 private:
  static void note(UsedTensors& scope, const c10::IValue& input);
  static std::unique_ptr<at::ObserverContext> on_operation(const at::RecordFunction& operation);

  UsedTensors* outer_;
  at::CallbackHandle handle_{};
  std::unordered_set<const void*> seen_;
  std::vector<torch::Tensor> tensors_;
};

}  // namespace cohort::parallel

#include "cohort/parallel/activations/used_tensors.h"

#include "cohort/parallel/tensors/operation_inputs.h"

namespace cohort::parallel {

namespace {

thread_local UsedTensors* innermost_used = nullptr;

}  // namespace

UsedTensors::UsedTensors() : outer_(innermost_used) {
  innermost_used = this;
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&UsedTensors::on_operation)
                                           .needsInputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

UsedTensors::~UsedTensors() {
  at::removeCallback(handle_);
  innermost_used = outer_;
}

void UsedTensors::note(UsedTensors& scope, const c10::IValue& input) {
  if (input.isTensor()) {
    const torch::Tensor& tensor = input.toTensor();
    if (tensor.defined() && tensor.requires_grad() &&
        scope.seen_.insert(tensor.unsafeGetTensorImpl()).second)
      scope.tensors_.push_back(tensor);
  } else if (input.isList()) {
    for (const c10::IValue& item : input.toListRef()) note(scope, item);
  }
}

std::unique_ptr<at::ObserverContext> UsedTensors::on_operation(
    const at::RecordFunction& operation) {
  if (innermost_used != nullptr)
    for (const c10::IValue& input : inputs_of(operation)) note(*innermost_used, input);
  return nullptr;
}

}  // namespace cohort::parallel

#include "cohort/parallel/gradients/gradient_hooks.h"

#include <memory>

namespace cohort::parallel {

namespace {

class Callback : public torch::autograd::FunctionPostHook {
 public:
  explicit Callback(std::function<void()> call) : call_(std::move(call)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    call_();
    return outputs;
  }

 private:
  std::function<void()> call_;
};

}  // namespace

GradientHooks::~GradientHooks() {
  for (Hook& hook : hooks_) hook.accumulator->del_post_hook(hook.key);
}

void GradientHooks::add(const torch::Tensor& leaf, std::function<void()> callback) {
  Accumulator accumulator = torch::autograd::impl::grad_accumulator(leaf);
  const std::uintptr_t key =
      accumulator->add_post_hook(std::make_unique<Callback>(std::move(callback)));
  hooks_.push_back({std::move(accumulator), key});
}

}  // namespace cohort::parallel

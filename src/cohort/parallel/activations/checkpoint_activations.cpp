#include "cohort/parallel/activations/checkpoint_activations.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>

#include <mutex>
#include <optional>

#include "cohort/base/error.h"
#include "cohort/parallel/activations/used_tensors.h"
#include "cohort/parallel/tensors/random_scope.h"

namespace cohort::parallel {

namespace {

// While it lives, weights that autocast rounds are not remembered: without grad mode they have no
// history, and after the step they are old.
class NoCastCache {
 public:
  NoCastCache() : before_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~NoCastCache() { at::autocast::set_autocast_cache_enabled(before_); }
  NoCastCache(const NoCastCache&) = delete;
  NoCastCache& operator=(const NoCastCache&) = delete;

 private:
  bool before_;
};

// What a generator draws next.
struct DrawsNext {
  at::Generator generator;
  torch::Tensor state;
};

torch::Tensor state_of_generator(at::Generator& generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_state_of_generator(at::Generator& generator, const torch::Tensor& state) {
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

// While it lives, generators draw what they drew before.
class DrawAgain {
 public:
  explicit DrawAgain(std::vector<DrawsNext> again) {
    for (DrawsNext& one : again) {
      before_.push_back({one.generator, state_of_generator(one.generator)});
      set_state_of_generator(one.generator, one.state);
    }
  }
  ~DrawAgain() {
    for (DrawsNext& one : before_) set_state_of_generator(one.generator, one.state);
  }
  DrawAgain(const DrawAgain&) = delete;
  DrawAgain& operator=(const DrawAgain&) = delete;

 private:
  std::vector<DrawsNext> before_;
};

// What backward needs to compute the part again.
struct Again : torch::CustomClassHolder {
  TensorFunction function;
  std::size_t inputs = 0;  // of the variables; the others are what the function uses besides
  std::vector<torch::Tensor> buffers;
  std::vector<DrawsNext> draws;
  at::ThreadLocalState thread;         // autocast, above all
  std::vector<torch::Tensor> outputs;  // of the first time, until they are the node's
};

std::vector<torch::Tensor> compute_again(Again& again, const std::vector<torch::Tensor>& inputs) {
  const at::ThreadLocalStateGuard as_before(again.thread);
  const torch::AutoGradMode with_graph(true);
  const NoCastCache no_cache;
  const DrawAgain draws(again.draws);
  return again.function(inputs);
}

struct ComputeAgain : torch::autograd::Function<ComputeAgain> {
  using Context = torch::autograd::AutogradContext;
  using Variables = torch::autograd::variable_list;

  static Variables forward(Context* context, const c10::intrusive_ptr<Again>& again,
                           at::TensorList variables) {
    context->save_for_backward(variables.vec());
    context->saved_data["again"] = c10::IValue::make_capsule(again);
    return std::exchange(again->outputs, {});
  }

  static Variables backward(Context* context, const Variables& gradients) {
    const auto capsule = context->saved_data["again"].toCapsule();
    Again& again = static_cast<Again&>(*capsule);
    const Variables saved = context->get_saved_variables();
    Variables inputs, wanted;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < saved.size(); ++i) {
      const bool is_input = i < again.inputs;
      torch::Tensor variable = saved[i];
      if (is_input) {
        variable = variable.defined()
                       ? variable.detach().set_requires_grad(saved[i].requires_grad())
                       : variable;
        inputs.push_back(variable);
      }
      if (!variable.defined() || !variable.requires_grad()) continue;
      wanted.push_back(variable);
      places.push_back(i);
    }
    Variables before;
    for (const torch::Tensor& buffer : again.buffers) before.push_back(buffer.detach().clone());
    const auto outputs = compute_again(again, inputs);
    if (outputs.size() != gradients.size())
      throw InvalidInput(fmt::format("the part gave {} tensors first and {} when it was computed "
                                     "again",
                                     gradients.size(), outputs.size()),
                         {.during = "checkpoint_activations",
                          .advice = "Let it depend on nothing but its inputs."});
    Variables ends, at_ends;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (gradients[i].defined() && outputs[i].requires_grad()) {
        ends.push_back(outputs[i]);
        at_ends.push_back(gradients[i]);
      }
    Variables result(saved.size() + 1);  // the first is that of `again`
    if (!ends.empty() && !wanted.empty()) {
      const auto found = torch::autograd::grad(ends, wanted, at_ends, /*retain_graph=*/false,
                                               /*create_graph=*/false, /*allow_unused=*/true);
      for (std::size_t i = 0; i < places.size(); ++i) result[places[i] + 1] = found[i];
    }
    const torch::NoGradGuard no_grad;  // the graph is gone, so its buffers may change
    for (std::size_t i = 0; i < before.size(); ++i) again.buffers[i].copy_(before[i]);
    return result;
  }
};

}  // namespace

std::vector<torch::Tensor> checkpoint_activations_of(TensorFunction function,
                                                     const std::vector<torch::Tensor>& inputs,
                                                     std::vector<torch::Tensor> buffers) {
  if (!torch::GradMode::is_enabled()) return function(inputs);
  const auto again = c10::make_intrusive<Again>();
  again->function = std::move(function);
  again->inputs = inputs.size();
  again->buffers = std::move(buffers);
  std::optional<torch::Device> device;
  for (const torch::Tensor& input : inputs)
    if (input.defined() && !input.device().is_cpu()) device = input.device();
  std::vector<at::Generator> generators{generator_of_this_thread(torch::kCPU)};
  if (device) generators.push_back(generator_of_this_thread(*device));
  for (at::Generator& generator : generators)
    again->draws.push_back({generator, state_of_generator(generator)});
  std::vector<torch::Tensor> variables = inputs;
  {
    const torch::NoGradGuard no_graph;
    const NoCastCache no_cache;
    UsedTensors used;
    for (const torch::Tensor& input : inputs) used.leave_out(input);
    again->outputs = again->function(inputs);
    variables.insert(variables.end(), used.tensors().begin(), used.tensors().end());
  }
  return ComputeAgain::apply(again, at::TensorList(variables));
}

}  // namespace cohort::parallel

#include "cohort/train/sync/fused_step.h"

#include <torch/version.h>

#include <algorithm>
#include <typeinfo>

namespace cohort::train {
namespace {

using torch::optim::AdamParamState;
using torch::optim::AdamWParamState;
using torch::optim::SGDParamState;

#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 204
constexpr bool kHasFusedSteps = true;

void fused_sgd(std::vector<torch::Tensor>& parameters, const std::vector<torch::Tensor>& gradients,
               const std::vector<torch::Tensor>& momenta, const torch::Tensor& rate,
               const torch::optim::SGDOptions& options) {
  at::_fused_sgd_(parameters, gradients, momenta, options.weight_decay(), options.momentum(), rate,
                  /*dampening=*/0, options.nesterov(), /*maximize=*/false, /*is_first_step=*/false);
}

template <typename Options>
void fused_adam(std::vector<torch::Tensor>& parameters, const std::vector<torch::Tensor>& gradients,
                std::vector<torch::Tensor>& first, std::vector<torch::Tensor>& second,
                const std::vector<torch::Tensor>& steps, const torch::Tensor& rate,
                const Options& options) {
  const auto [beta1, beta2] = options.betas();
  constexpr bool kIsAdamW = std::is_same_v<Options, torch::optim::AdamWOptions>;
  const auto update = [&](auto operation) {
    operation(parameters, gradients, first, second, torch::TensorList(), steps, rate, beta1, beta2,
              options.weight_decay(), options.eps(), /*amsgrad=*/false, /*maximize=*/false,
              std::nullopt, std::nullopt);
  };
  if constexpr (kIsAdamW)
    update([](auto&&... arguments) { at::_fused_adamw_(arguments...); });
  else
    update([](auto&&... arguments) { at::_fused_adam_(arguments...); });
}
#else
constexpr bool kHasFusedSteps = false;
template <typename... Arguments>
void fused_sgd(Arguments&&...) {}
template <typename... Arguments>
void fused_adam(Arguments&&...) {}
#endif

bool lies_as(const torch::Tensor& tensor, const torch::Tensor& parameter) {
  return tensor.defined() && tensor.layout() == torch::kStrided &&
         tensor.scalar_type() == parameter.scalar_type() && tensor.device() == parameter.device() &&
         tensor.sizes() == parameter.sizes() && tensor.strides() == parameter.strides();
}

torch::Tensor zeros_laid_as(const torch::Tensor& parameter) {
  return torch::zeros_like(parameter, torch::MemoryFormat::Preserve);
}

// State that came from a checkpoint may lie in another order than the parameter.
torch::Tensor laid_as(const torch::Tensor& state, const torch::Tensor& parameter) {
  if (lies_as(state, parameter) || state.sizes() != parameter.sizes()) return state;
  return zeros_laid_as(parameter).copy_(state);
}

// The state of a parameter, made where there is none.
template <typename State>
State& state_of(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter) {
  auto& slot = optimizer.state()[parameter.unsafeGetTensorImpl()];
  if (!slot) slot = std::make_unique<State>();
  return static_cast<State&>(*slot);
}

template <typename State>
void collect_averages(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter,
                      std::vector<torch::Tensor>& first, std::vector<torch::Tensor>& second,
                      std::int64_t& count) {
  auto& state = state_of<State>(optimizer, parameter);
  if (!state.exp_avg().defined()) {
    state.step(0);
    state.exp_avg(zeros_laid_as(parameter));
    state.exp_avg_sq(zeros_laid_as(parameter));
  }
  state.exp_avg(laid_as(state.exp_avg(), parameter));
  state.exp_avg_sq(laid_as(state.exp_avg_sq(), parameter));
  first.push_back(state.exp_avg());
  second.push_back(state.exp_avg_sq());
  count = state.step();
}

template <typename Options>
bool is_plain_adam(const torch::optim::OptimizerParamGroup& group) {
  return !static_cast<const Options&>(group.options()).amsgrad();
}

}  // namespace

FusedStep::Rule FusedStep::rule() const {
  const std::type_info& type = typeid(optimizer_);
  const auto& groups = optimizer_.param_groups();
  const auto all = [&](auto&& good) { return std::all_of(groups.begin(), groups.end(), good); };
  if (!kHasFusedSteps) return Rule::none;
  if (type == typeid(torch::optim::SGD) && all([](const auto& group) {
        return static_cast<const torch::optim::SGDOptions&>(group.options()).dampening() == 0;
      }))
    return Rule::sgd;
  if (type == typeid(torch::optim::Adam) && all(is_plain_adam<torch::optim::AdamOptions>))
    return Rule::adam;
  if (type == typeid(torch::optim::AdamW) && all(is_plain_adam<torch::optim::AdamWOptions>))
    return Rule::adamw;
  return Rule::none;
}

bool FusedStep::applies() { return rule() != Rule::none && collect(); }

bool FusedStep::collect() {
  const auto& given = optimizer_.param_groups();
  groups_.resize(given.size());
  for (std::size_t i = 0; i < given.size(); ++i)
    if (!collect(given[i], groups_[i])) return false;
  return true;
}

bool FusedStep::collect(const torch::optim::OptimizerParamGroup& given, Group& group) {
  group.parameters.clear();
  group.first.clear();
  group.second.clear();
  for (const torch::Tensor& parameter : given.params()) {
    if (!lies_as(parameter.grad(), parameter) ||
        parameter.device() != given.params().front().device() ||
        !parameter.unsafeGetTensorImpl()->is_non_overlapping_and_dense())
      return false;
    group.parameters.push_back(parameter);
  }
  const torch::NoGradGuard no_gradients;
  const Rule rule = this->rule();
  for (const torch::Tensor& parameter : group.parameters) {
    std::int64_t count = group.count;
    if (rule == Rule::adam) {
      collect_averages<AdamParamState>(optimizer_, parameter, group.first, group.second, count);
    } else if (rule == Rule::adamw) {
      collect_averages<AdamWParamState>(optimizer_, parameter, group.first, group.second, count);
    } else if (static_cast<const torch::optim::SGDOptions&>(given.options()).momentum() != 0) {
      // A momentum of zeros is what the first step of a rule without dampening begins with.
      auto& state = state_of<SGDParamState>(optimizer_, parameter);
      if (!state.momentum_buffer().defined()) state.momentum_buffer(zeros_laid_as(parameter));
      state.momentum_buffer(laid_as(state.momentum_buffer(), parameter));
      group.first.push_back(state.momentum_buffer());
    }
    if (parameter.is_same(group.parameters.front())) group.count = count;
    if (count != group.count) return false;  // one count serves all of the group
    const auto lies_alike = [&](const std::vector<torch::Tensor>& state) {
      return state.empty() || lies_as(state.back(), parameter);
    };
    if (!lies_alike(group.first) || !lies_alike(group.second)) return false;
  }
  return true;
}

void FusedStep::prepare() {
  const torch::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    if (group.parameters.empty()) continue;
    const auto on_device = torch::device(group.parameters.front().device()).dtype(torch::kFloat);
    const double rate = optimizer_.param_groups()[i].options().get_lr();
    if (!group.rate.defined()) {
      group.rate = torch::empty({}, on_device);
      group.steps = torch::empty({}, on_device);
    }
    if (group.rate_there != rate) group.rate.fill_(rate);
    group.rate_there = rate;
    if (group.steps_there != group.count) group.steps.fill_(static_cast<double>(group.count));
    group.steps_there = group.count;
  }
}

void FusedStep::enqueue() {
  const torch::NoGradGuard no_gradients;
  const Rule rule = this->rule();
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    if (group.parameters.empty()) continue;
    std::vector<torch::Tensor> gradients;
    for (const torch::Tensor& parameter : group.parameters) gradients.push_back(parameter.grad());
    const auto& options = optimizer_.param_groups()[i].options();
    if (rule == Rule::sgd) {
      fused_sgd(group.parameters, gradients, group.first, group.rate,
                static_cast<const torch::optim::SGDOptions&>(options));
      continue;
    }
    group.steps.add_(1);
    const std::vector<torch::Tensor> steps(group.parameters.size(), group.steps);
    if (rule == Rule::adam)
      fused_adam(group.parameters, gradients, group.first, group.second, steps, group.rate,
                 static_cast<const torch::optim::AdamOptions&>(options));
    else
      fused_adam(group.parameters, gradients, group.first, group.second, steps, group.rate,
                 static_cast<const torch::optim::AdamWOptions&>(options));
  }
}

void FusedStep::count() {
  const Rule rule = this->rule();
  if (rule == Rule::sgd) return;  // counts no steps
  for (Group& group : groups_) {
    group.steps_there = ++group.count;
    for (const torch::Tensor& parameter : group.parameters) {
      if (rule == Rule::adam)
        state_of<AdamParamState>(optimizer_, parameter).step(group.count);
      else
        state_of<AdamWParamState>(optimizer_, parameter).step(group.count);
    }
  }
}

void FusedStep::step() {
  prepare();
  enqueue();
  count();
}

double FusedStep::addresses() const {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  std::uint64_t hash = 0;
  for (const Group& group : groups_)
    for (const auto* tensors : {&group.parameters, &group.first, &group.second})
      for (const torch::Tensor& tensor : *tensors)
        hash = (hash ^ reinterpret_cast<std::uintptr_t>(tensor.data_ptr())) * kPrime;
  return static_cast<double>(hash >> 11);  // as many bits as it holds exactly
}

std::vector<double> FusedStep::constants() const {
  std::vector<double> all;
  for (const auto& group : optimizer_.param_groups()) {
    const auto& options = group.options();
    if (const auto* sgd = dynamic_cast<const torch::optim::SGDOptions*>(&options))
      all.insert(all.end(), {sgd->momentum(), sgd->dampening(), sgd->weight_decay(),
                             static_cast<double>(sgd->nesterov())});
    const auto add_adam = [&](const auto& adam) {
      all.insert(all.end(), {std::get<0>(adam.betas()), std::get<1>(adam.betas()), adam.eps(),
                             adam.weight_decay(), static_cast<double>(adam.amsgrad())});
    };
    if (const auto* adam = dynamic_cast<const torch::optim::AdamOptions*>(&options))
      add_adam(*adam);
    if (const auto* adamw = dynamic_cast<const torch::optim::AdamWOptions*>(&options))
      add_adam(*adamw);
  }
  return all;
}

}  // namespace cohort::train

#include "cohort/train/sync/one_pass_step.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "cohort/ps/rules/apply_update.h"
#include "cohort/train/checkpoint/optimizer_slots.h"

namespace cohort::train {
namespace {

// What a thread takes at a time: enough to be worth its start, little enough to share well.
constexpr std::int64_t kElementsATime = 1 << 15;

bool has_rule(const torch::Tensor& parameter) {
  const auto type = parameter.scalar_type();
  return parameter.is_cpu() && parameter.layout() == torch::kStrided &&
         (type == torch::kFloat || type == torch::kDouble) &&
         parameter.unsafeGetTensorImpl()->is_non_overlapping_and_dense();
}

bool lies_alike(const torch::Tensor& tensor, const torch::Tensor& parameter) {
  return tensor.is_cpu() && tensor.layout() == torch::kStrided &&
         tensor.scalar_type() == parameter.scalar_type() && tensor.sizes() == parameter.sizes() &&
         tensor.strides() == parameter.strides();
}

// One parameter's update.
struct Work {
  torch::Tensor parameter;
  const ps::UpdateRule* rule;
  double lr;
  std::vector<torch::Tensor> slots;  // undefined: not yet there
};

// False where some parameter has to be left to LibTorch.
bool collect(const torch::optim::Optimizer& optimizer, const std::vector<ps::UpdateRule>& rules,
             std::vector<Work>& all) {
  for (std::size_t group = 0; group < rules.size(); ++group) {
    const auto& options = optimizer.param_groups()[group];
    for (const torch::Tensor& parameter : options.params()) {
      if (!parameter.grad().defined()) continue;
      if (!has_rule(parameter) || !lies_alike(parameter.grad(), parameter)) return false;
      Work work{parameter, &rules[group], options.options().get_lr(), {}};
      for (int slot = 0; slot < ps::slot_count(rules[group]); ++slot) {
        work.slots.push_back(
            find_slot(optimizer, parameter, std::string(ps::slot_name(rules[group], slot))));
        if (work.slots.back().defined() && !lies_alike(work.slots.back(), parameter)) return false;
      }
      all.push_back(std::move(work));
    }
  }
  return true;
}

std::byte* bytes_of(const torch::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.data_ptr());
}

void apply(const Work& work, std::int64_t number) {
  const std::int64_t bytes = work.parameter.element_size();
  at::parallel_for(0, work.parameter.numel(), kElementsATime,
                   [&](std::int64_t from, std::int64_t to) {
                     const auto part = [&](const torch::Tensor& tensor) {
                       return bytes_of(tensor) + from * bytes;
                     };
                     ps::Update update{
                         .type = bytes == 4 ? ps::ElementType::f32 : ps::ElementType::f64,
                         .elements = static_cast<std::size_t>(to - from),
                         .gradient = part(work.parameter.grad()),
                         .values = part(work.parameter),
                         .new_values = part(work.parameter),
                         .number = static_cast<std::uint64_t>(number),
                         .lr = work.lr,
                     };
                     for (std::size_t i = 0; i < work.slots.size(); ++i)
                       update.slots[i] = update.new_slots[i] = part(work.slots[i]);
                     ps::apply(*work.rule, update);
                   });
}

}  // namespace

void step_in_one_pass(torch::optim::Optimizer& optimizer) {
  const torch::NoGradGuard no_gradients;
  std::vector<Work> all;
  std::vector<ps::UpdateRule> rules;
  if (has_update_rules(optimizer)) rules = update_rules(optimizer);
  if (rules.empty() || !collect(optimizer, rules, all)) {
    optimizer.step();
    return;
  }
  for (Work& work : all) {
    // SGD counts no steps: what matters to its rule is whether this is the first.
    const std::int64_t number = updates_of(optimizer, work.parameter, 1) + 1;
    for (std::size_t slot = 0; slot < work.slots.size(); ++slot)
      if (!work.slots[slot].defined())
        work.slots[slot] = torch::full_like(
            work.parameter, ps::initial_slot_value(*work.rule, static_cast<int>(slot)),
            torch::MemoryFormat::Preserve);
    apply(work, number);
    work.parameter.unsafeGetTensorImpl()->bump_version();  // as operations of LibTorch do
    update_state(optimizer, work.parameter, *work.rule, work.slots, number);
  }
}

}  // namespace cohort::train

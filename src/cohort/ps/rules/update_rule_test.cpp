#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/ps/rules/apply_update.h"
#include "cohort/ps/rules/update_rule_table.h"

namespace cohort::ps {
namespace {

using RuleKind = UpdateRule::Kind;

// One parameter of some elements, updated in place or beside.
template <typename T>
struct Parameter {
  std::vector<T> values, gradient;
  std::vector<std::vector<T>> slots;

  Parameter(const UpdateRule& rule, std::size_t n) : values(n), gradient(n) {
    for (std::size_t i = 0; i < n; ++i) {
      values[i] = static_cast<T>(0.5) - static_cast<T>(i) / static_cast<T>(n);
      gradient[i] = static_cast<T>(0.1) * static_cast<T>(i % 7) - static_cast<T>(0.3);
    }
    for (int s = 0; s < slot_count(rule); ++s)
      slots.emplace_back(n, static_cast<T>(initial_slot_value(rule, s)));
  }

  Update in_place(std::uint64_t number) {
    Update update;
    update.type = sizeof(T) == 4 ? ElementType::f32 : ElementType::f64;
    update.elements = values.size();
    update.gradient = reinterpret_cast<const std::byte*>(gradient.data());
    update.values = update.new_values = reinterpret_cast<std::byte*>(values.data());
    for (std::size_t s = 0; s < slots.size(); ++s)
      update.slots[s] = update.new_slots[s] = reinterpret_cast<std::byte*>(slots[s].data());
    update.number = number;
    update.lr = 0.1;
    return update;
  }
};

std::vector<UpdateRule> rules() {
  return {{.kind = RuleKind::replace},
          {.kind = RuleKind::sgd, .weight_decay = 0.01, .momentum = 0.9, .dampening = 0.1},
          {.kind = RuleKind::adagrad, .eps = 1e-10, .lr_decay = 0.1, .initial_accumulator = 0.5},
          {.kind = RuleKind::adam, .amsgrad = true},
          {.kind = RuleKind::adamw, .weight_decay = 0.1},
          {.kind = RuleKind::rmsprop, .momentum = 0.9, .centered = true}};
}

TEST(UpdateRuleTest, SlotsFollowTheOptions) {
  EXPECT_EQ(slot_count({.kind = RuleKind::replace}), 0);
  EXPECT_EQ(slot_count({.kind = RuleKind::sgd}), 0);
  EXPECT_EQ(slot_count({.kind = RuleKind::sgd, .momentum = 0.9}), 1);
  EXPECT_EQ(slot_count({.kind = RuleKind::adam, .amsgrad = true}), 3);
  EXPECT_EQ(slot_name({.kind = RuleKind::adam}, 1), "exp_avg_sq");
  const UpdateRule centered{.kind = RuleKind::rmsprop, .centered = true};
  EXPECT_EQ(slot_count(centered), 2);
  EXPECT_EQ(slot_name(centered, 1), "grad_avg");
  EXPECT_EQ(initial_slot_value({.kind = RuleKind::adagrad, .initial_accumulator = 0.5}, 0), 0.5);
}

TEST(UpdateRuleTest, WordsOfKindsComeBack) {
  for (const UpdateRule& rule : rules())
    EXPECT_EQ(parse_rule_kind(to_string(rule.kind)), rule.kind);
  EXPECT_THROW(parse_rule_kind("lion"), InvalidInput);
}

TEST(UpdateRuleTest, FirstMomentumIsTheGradient) {
  const UpdateRule rule{.kind = RuleKind::sgd, .momentum = 0.9, .dampening = 0.5};
  Parameter<float> parameter(rule, 1);
  parameter.values = {1};
  parameter.gradient = {2};
  apply(rule, parameter.in_place(1));
  EXPECT_FLOAT_EQ(parameter.slots[0][0], 2);
  EXPECT_FLOAT_EQ(parameter.values[0], 0.8f);
  apply(rule, parameter.in_place(2));
  EXPECT_FLOAT_EQ(parameter.slots[0][0], 2.8f);
}

TEST(UpdateRuleTest, EveryBadElementIsReportedWhereverItStands) {
  for (const UpdateRule& rule : rules())
    for (const std::size_t n : {1, 15, 16, 17, 67, 300})
      for (std::size_t at = 0; at < n; at += 1 + n / 20)
        for (const double bad :
             {std::nan(""), HUGE_VAL, -HUGE_VAL, std::numeric_limits<double>::max()}) {
          Parameter<float> parameter(rule, n);
          EXPECT_TRUE(apply(rule, parameter.in_place(1)));
          parameter.gradient[at] = static_cast<float>(bad);
          EXPECT_FALSE(apply(rule, parameter.in_place(2)));
          Parameter<double> wide(rule, n);
          wide.gradient[at] = bad;
          EXPECT_EQ(apply(rule, wide.in_place(1)), std::isfinite(bad));
        }
}

template <typename T>
void expect_near_plain(const UpdateRule& rule, ApplyFunction function) {
  const T tolerance = sizeof(T) == 4 ? static_cast<T>(1e-5) : static_cast<T>(1e-13);
  Parameter<T> plain(rule, 67), other(rule, 67);
  for (std::uint64_t step = 1; step <= 5; ++step) {
    apply_plain(rule, plain.in_place(step));
    function(rule, other.in_place(step));
  }
  for (std::size_t i = 0; i < plain.values.size(); ++i)
    EXPECT_NEAR(plain.values[i], other.values[i], tolerance) << to_string(rule.kind) << " " << i;
}

TEST(UpdateRuleTest, InstructionSetsAgreeButForRounding) {
  for (const UpdateRule& rule : rules()) {
    expect_near_plain<float>(rule, apply);
    expect_near_plain<double>(rule, apply);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      expect_near_plain<float>(rule, apply_avx2);
      expect_near_plain<double>(rule, apply_avx2);
    }
  }
}

}  // namespace
}  // namespace cohort::ps

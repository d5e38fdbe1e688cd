#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "cohort/ps/rules/apply_update.h"

namespace cohort::ps {
namespace {

using torch::optim::Optimizer;
using Parameters = std::vector<torch::Tensor>;
using Kind = UpdateRule::Kind;

std::unique_ptr<Optimizer> make_torch(const UpdateRule& rule, const Parameters& parameters) {
  switch (rule.kind) {
    case Kind::replace:
      break;
    case Kind::sgd:
      return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(rule.lr)
                                                                 .momentum(rule.momentum)
                                                                 .dampening(rule.dampening)
                                                                 .weight_decay(rule.weight_decay)
                                                                 .nesterov(rule.nesterov));
    case Kind::adagrad:
      return std::make_unique<torch::optim::Adagrad>(
          parameters, torch::optim::AdagradOptions(rule.lr)
                          .lr_decay(rule.lr_decay)
                          .weight_decay(rule.weight_decay)
                          .initial_accumulator_value(rule.initial_accumulator)
                          .eps(rule.eps));
    case Kind::adam:
      return std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(rule.lr)
                                                                  .betas({rule.beta1, rule.beta2})
                                                                  .eps(rule.eps)
                                                                  .weight_decay(rule.weight_decay)
                                                                  .amsgrad(rule.amsgrad));
    case Kind::adamw:
      return std::make_unique<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions(rule.lr)
                                                                   .betas({rule.beta1, rule.beta2})
                                                                   .eps(rule.eps)
                                                                   .weight_decay(rule.weight_decay)
                                                                   .amsgrad(rule.amsgrad));
    case Kind::rmsprop:
      return std::make_unique<torch::optim::RMSprop>(parameters,
                                                     torch::optim::RMSpropOptions(rule.lr)
                                                         .alpha(rule.alpha)
                                                         .eps(rule.eps)
                                                         .weight_decay(rule.weight_decay)
                                                         .momentum(rule.momentum)
                                                         .centered(rule.centered));
  }
  throw std::logic_error("torch has no such rule");
}

void set_rate(Optimizer& optimizer, double lr) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(lr);
}

// Zeros, denormal and ordinary numbers, and some so large or small that their squares overflow or
// vanish.
template <typename T>
T draw(std::mt19937_64& random) {
  const std::uint64_t bits = random();
  const int most = std::is_same_v<T, float> ? 127 : 1023;
  const T sign = bits & 1 ? -1 : 1;
  const T mantissa = 1 + std::ldexp(static_cast<T>(bits >> 12), -52);
  switch ((bits >> 1) % 8) {
    case 0:
      return sign * 0;
    case 1:
      return sign * std::ldexp(mantissa, -most - static_cast<int>((bits >> 4) % 20));
    case 2:
      return sign * std::ldexp(mantissa, static_cast<int>((bits >> 4) % 120) - 60);
    default:
      return sign * std::ldexp(mantissa, static_cast<int>((bits >> 4) % 16) - 14);
  }
}

// A parameter as a server has it.
template <typename T>
struct Own {
  std::vector<T> values;
  std::vector<std::vector<T>> slots;
  std::vector<T> next_values;
  std::vector<std::vector<T>> next_slots;

  Own(const UpdateRule& rule, std::vector<T> initial)
      : values(std::move(initial)), next_values(values.size()) {
    for (int i = 0; i < slot_count(rule); ++i)
      slots.emplace_back(values.size(), static_cast<T>(initial_slot_value(rule, i)));
    next_slots = slots;
  }

  bool update(const UpdateRule& rule, const std::vector<T>& gradient, std::uint64_t number,
              double lr) {
    Update update;
    update.type = std::is_same_v<T, float> ? ElementType::f32 : ElementType::f64;
    update.elements = values.size();
    update.gradient = reinterpret_cast<const std::byte*>(gradient.data());
    update.values = reinterpret_cast<const std::byte*>(values.data());
    update.new_values = reinterpret_cast<std::byte*>(next_values.data());
    for (std::size_t i = 0; i < slots.size(); ++i) {
      update.slots[i] = reinterpret_cast<const std::byte*>(slots[i].data());
      update.new_slots[i] = reinterpret_cast<std::byte*>(next_slots[i].data());
    }
    update.number = number;
    update.lr = lr;
    const bool finite = apply(rule, update);
    values.swap(next_values);
    slots.swap(next_slots);
    return finite;
  }
};

// Elements whose bits differ; any NaN equals any other.
template <typename T>
int different(const std::vector<T>& own, const torch::Tensor& tensor, std::string& first) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const T* theirs = tensor.data_ptr<T>();
  int count = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (std::bit_cast<Bits>(own[i]) == std::bit_cast<Bits>(theirs[i])) continue;
    if (std::isnan(own[i]) && std::isnan(theirs[i])) continue;
    if (count++ == 0)
      first = fmt::format("element {} of {}: {:.9g}, torch has {:.9g}", i, own.size(), own[i],
                          theirs[i]);
  }
  return count;
}

template <typename T>
void expect_same_bits(const UpdateRule& rule, const std::string& name) {
  constexpr auto kType = std::is_same_v<T, float> ? torch::kFloat32 : torch::kFloat64;
  std::mt19937_64 random(7);
  std::vector<std::size_t> sizes;
  for (std::size_t n = 1; n <= 67; ++n) sizes.push_back(n);
  sizes.push_back(1000);
  sizes.push_back(10001);
  torch::set_num_threads(1);

  const auto draw_all = [&](std::size_t n) {
    std::vector<T> all(n);
    for (T& x : all) x = draw<T>(random);
    return all;
  };
  Parameters parameters;
  std::vector<Own<T>> own;
  for (const std::size_t n : sizes) {
    own.emplace_back(rule, draw_all(n));
    torch::Tensor tensor = torch::empty({static_cast<std::int64_t>(n)}, kType);
    std::memcpy(tensor.data_ptr(), own.back().values.data(), n * sizeof(T));
    parameters.push_back(tensor.requires_grad_());
  }
  auto optimizer = make_torch(rule, parameters);
  for (std::uint64_t step = 1; step <= 8; ++step) {
    const double lr = rule.lr * (1 + 0.1 * static_cast<double>(step % 5));
    set_rate(*optimizer, lr);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::vector<T> gradient = draw_all(sizes[i]);
      torch::Tensor tensor = torch::empty({static_cast<std::int64_t>(sizes[i])}, kType);
      std::memcpy(tensor.data_ptr(), gradient.data(), sizes[i] * sizeof(T));
      parameters[i].mutable_grad() = tensor;
      EXPECT_TRUE(own[i].update(rule, gradient, step, lr));
    }
    optimizer->step();
    int count = 0;
    std::string first;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      count += different(own[i].values, parameters[i].detach(), first);
    ASSERT_EQ(count, 0) << name << ", step " << step << ": " << first;
  }
}

void expect_same_bits(const UpdateRule& rule) {
  const std::string name =
      fmt::format("{} decay {} momentum {} dampening {} nesterov {} amsgrad {} centered {}",
                  to_string(rule.kind), rule.weight_decay, rule.momentum, rule.dampening,
                  rule.nesterov, rule.amsgrad, rule.centered);
  expect_same_bits<float>(rule, name + " f32");
  expect_same_bits<double>(rule, name + " f64");
}

TEST(UpdateRuleTorchTest, SgdHasTorchsBits) {
  for (const double decay : {0.0, 1e-4}) {
    expect_same_bits({.kind = Kind::sgd, .lr = 0.1, .weight_decay = decay});
    for (const double dampening : {0.0, 0.3})
      expect_same_bits({.kind = Kind::sgd,
                        .lr = 0.03,
                        .weight_decay = decay,
                        .momentum = 0.9,
                        .dampening = dampening});
    expect_same_bits(
        {.kind = Kind::sgd, .lr = 0.03, .weight_decay = decay, .momentum = 0.9, .nesterov = true});
  }
}

TEST(UpdateRuleTorchTest, AdagradHasTorchsBits) {
  for (const double decay : {0.0, 1e-3}) {
    expect_same_bits({.kind = Kind::adagrad, .lr = 0.01, .weight_decay = decay, .eps = 1e-10});
    expect_same_bits({.kind = Kind::adagrad,
                      .lr = 0.1,
                      .weight_decay = decay,
                      .eps = 1e-7,
                      .lr_decay = 0.01,
                      .initial_accumulator = 0.1});
  }
}

TEST(UpdateRuleTorchTest, AdamHasTorchsBits) {
  for (const double decay : {0.0, 1e-2})
    for (const bool amsgrad : {false, true})
      expect_same_bits({.kind = Kind::adam, .lr = 1e-3, .weight_decay = decay, .amsgrad = amsgrad});
}

TEST(UpdateRuleTorchTest, AdamWHasTorchsBits) {
  for (const double decay : {0.0, 1e-2})
    for (const bool amsgrad : {false, true})
      expect_same_bits({.kind = Kind::adamw,
                        .lr = 1e-3,
                        .weight_decay = decay,
                        .beta1 = 0.8,
                        .beta2 = 0.99,
                        .amsgrad = amsgrad});
}

TEST(UpdateRuleTorchTest, RmspropHasTorchsBits) {
  for (const double decay : {0.0, 1e-4})
    for (const double momentum : {0.0, 0.9})
      for (const bool centered : {false, true})
        expect_same_bits({.kind = Kind::rmsprop,
                          .lr = 0.01,
                          .weight_decay = decay,
                          .momentum = momentum,
                          .centered = centered});
}

}  // namespace
}  // namespace cohort::ps

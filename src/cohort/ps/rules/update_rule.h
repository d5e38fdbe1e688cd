#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cohort::ps {

enum class ElementType : std::uint8_t { f32, f64 };
std::size_t size_of(ElementType type);

// How a gradient changes values: torch::optim's rules, and `replace` (the gradient is the new
// value: buffers such as batch-norm statistics). A value; fields that a rule does not have are
// ignored and left at their defaults.
struct UpdateRule {
  enum class Kind : std::uint8_t { replace, sgd, adagrad, adam, adamw, rmsprop };
  Kind kind = Kind::sgd;
  double lr = 0.01;  // at the beginning; each update is told its own
  double weight_decay = 0;
  double momentum = 0;  // sgd, rmsprop
  double dampening = 0;
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999;  // adam, adamw
  bool amsgrad = false;
  double eps = 1e-8;
  double alpha = 0.99;  // rmsprop
  bool centered = false;
  double lr_decay = 0;  // adagrad
  double initial_accumulator = 0;

  bool operator==(const UpdateRule&) const = default;
};

std::string_view to_string(UpdateRule::Kind kind);
// Throws InvalidInput that lists the words.
UpdateRule::Kind parse_rule_kind(std::string_view text);

constexpr int kMaxSlots = 3;

// The arrays, as large as the values, that the rule keeps beside them, by torch::optim's names
// ("momentum_buffer", "exp_avg", ...), in a fixed order.
int slot_count(const UpdateRule& rule);
std::string_view slot_name(const UpdateRule& rule, int slot);
// What a slot holds before the first update.
double initial_slot_value(const UpdateRule& rule, int slot);

// One update of a run of elements, out of place: old values and slots are read, new ones written.
// No array may overlap another, but each new one may be its old one.
struct Update {
  ElementType type = ElementType::f32;
  std::size_t elements = 0;
  const std::byte* gradient = nullptr;
  const std::byte* values = nullptr;
  std::byte* new_values = nullptr;
  std::array<const std::byte*, kMaxSlots> slots{};
  std::array<std::byte*, kMaxSlots> new_slots{};
  std::uint64_t number = 1;  // this is the parameter's update number n, from 1
  double lr = 0;
};

}  // namespace cohort::ps

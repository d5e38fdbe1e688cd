#include "cohort/ps/rules/update_rule.h"

#include "cohort/base/error.h"

namespace cohort::ps {
namespace {

constexpr std::array<std::string_view, 6> kKinds = {"replace", "sgd",   "adagrad",
                                                    "adam",    "adamw", "rmsprop"};

}  // namespace

std::size_t size_of(ElementType type) { return type == ElementType::f64 ? 8 : 4; }

std::string_view to_string(UpdateRule::Kind kind) {
  return kKinds.at(static_cast<std::size_t>(kind));
}

UpdateRule::Kind parse_rule_kind(std::string_view text) {
  for (std::size_t i = 0; i < kKinds.size(); ++i)
    if (kKinds[i] == text) return static_cast<UpdateRule::Kind>(i);
  throw InvalidInput(fmt::format("'{}' is no update rule", text),
                     {.advice = "Use one of replace, sgd, adagrad, adam, adamw, rmsprop."});
}

int slot_count(const UpdateRule& rule) {
  switch (rule.kind) {
    case UpdateRule::Kind::replace:
      return 0;
    case UpdateRule::Kind::sgd:
      return rule.momentum != 0 ? 1 : 0;
    case UpdateRule::Kind::adagrad:
      return 1;
    case UpdateRule::Kind::adam:
    case UpdateRule::Kind::adamw:
      return rule.amsgrad ? 3 : 2;
    case UpdateRule::Kind::rmsprop:
      return 1 + (rule.momentum > 0 ? 1 : 0) + (rule.centered ? 1 : 0);
  }
  return 0;
}

std::string_view slot_name(const UpdateRule& rule, int slot) {
  COHORT_CHECK(slot >= 0 && slot < slot_count(rule), "{} has no slot {}", to_string(rule.kind),
               slot);
  switch (rule.kind) {
    case UpdateRule::Kind::replace:
      break;
    case UpdateRule::Kind::sgd:
      return "momentum_buffer";
    case UpdateRule::Kind::adagrad:
      return "sum";
    case UpdateRule::Kind::adam:
    case UpdateRule::Kind::adamw:
      return slot == 0 ? "exp_avg" : slot == 1 ? "exp_avg_sq" : "max_exp_avg_sq";
    case UpdateRule::Kind::rmsprop:
      if (slot == 0) return "square_avg";
      return slot == 1 && rule.momentum > 0 ? "momentum_buffer" : "grad_avg";
  }
  return "";
}

double initial_slot_value(const UpdateRule& rule, int) {
  return rule.kind == UpdateRule::Kind::adagrad ? rule.initial_accumulator : 0;
}

}  // namespace cohort::ps

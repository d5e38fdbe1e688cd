#include "cohort/ps/model/model_spec_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace cohort::ps {
namespace {

// Two specs side by side. The first difference found stays.
class Comparison {
 public:
  Comparison(const std::string& first, const std::string& second)
      : first_(first), second_(second) {}

  // `clause` says what `a` is: "conv1.weight has {} elements".
  template <typename Value>
  void same(const Value& a, const Value& b, const std::string& before, const std::string& after) {
    if (!found_.empty() || a == b) return;
    found_ = fmt::format("{}{}{} on {} and {} on {}", before, a, after, first_, b, second_);
  }
  bool found() const { return !found_.empty(); }
  std::string take() { return std::move(found_); }

 private:
  const std::string& first_;
  const std::string& second_;
  std::string found_;
};

std::string quoted(const std::string& text) {
  return "'" + (text.size() <= 80 ? text : text.substr(0, 77) + "...") + "'";
}

void compare_rules(Comparison& both, const UpdateRule& a, const UpdateRule& b, std::size_t index) {
  const std::string group = fmt::format("group {} has ", index);
  both.same(to_string(a.kind), to_string(b.kind), group + "the rule ", "");
  const std::pair<const char*, double UpdateRule::*> numbers[] = {
      {"lr", &UpdateRule::lr},
      {"weight_decay", &UpdateRule::weight_decay},
      {"momentum", &UpdateRule::momentum},
      {"dampening", &UpdateRule::dampening},
      {"beta1", &UpdateRule::beta1},
      {"beta2", &UpdateRule::beta2},
      {"eps", &UpdateRule::eps},
      {"alpha", &UpdateRule::alpha},
      {"lr_decay", &UpdateRule::lr_decay},
      {"initial_accumulator", &UpdateRule::initial_accumulator}};
  for (const auto& [name, member] : numbers)
    both.same(a.*member, b.*member, group + name + " = ", "");
  both.same(a.nesterov, b.nesterov, group + "nesterov = ", "");
  both.same(a.amsgrad, b.amsgrad, group + "amsgrad = ", "");
  both.same(a.centered, b.centered, group + "centered = ", "");
}

void compare_blocks(Comparison& both, const Block& a, const Block& b, std::size_t index) {
  const std::size_t parts = std::min(a.parts.size(), b.parts.size());
  for (std::size_t i = 0; i < parts && !both.found(); ++i) {
    const std::string& name = a.parts[i].name;
    both.same(quoted(name), quoted(b.parts[i].name),
              fmt::format("parameter {} of block {} is ", i, index), "");
    both.same(a.parts[i].elements, b.parts[i].elements, name + " has ", " elements");
    both.same(a.parts[i].group, b.parts[i].group, name + " is in group ", "");
    both.same(a.parts[i].offset, b.parts[i].offset, name + " begins at element ",
              fmt::format(" of block {}", index));
  }
  both.same(a.parts.size(), b.parts.size(), fmt::format("block {} has ", index), " parameters");
  const auto type = [](const Block& block) {
    return block.type == ElementType::f64 ? "f64" : "f32";
  };
  both.same(std::string(type(a)), std::string(type(b)), fmt::format("block {} is of ", index), "");
  both.same(a.elements, b.elements, fmt::format("block {} has ", index), " elements");
}

void compare_tables(Comparison& both, const TableSpec& a, const TableSpec& b, std::size_t index) {
  both.same(quoted(a.name), quoted(b.name), fmt::format("table {} is ", index), "");
  both.same(a.dimension, b.dimension, a.name + " has rows of ", " values");
  both.same(a.rows, b.rows, a.name + " has ", " rows");
  both.same(a.group, b.group, a.name + " is in group ", "");
  both.same(a.admit_after, b.admit_after, a.name + " admits rows after ", " occurrences");
  both.same(a.keep_for, b.keep_for, a.name + " keeps unused rows for ", " steps");
  both.same(a.initial_scale, b.initial_scale, a.name + " has the initial scale ", "");
  both.same(a.seed, b.seed, a.name + " has the seed ", "");
}

// Of two JSON objects, the first member that differs; of other texts, both.
std::string option_difference(const std::string& first, const std::string& first_name,
                              const std::string& second, const std::string& second_name) {
  const auto a = nlohmann::json::parse(first, nullptr, false);
  const auto b = nlohmann::json::parse(second, nullptr, false);
  if (a.is_object() && b.is_object())
    for (const auto& [name, value] : a.items())
      if (const auto other = b.find(name); other == b.end() || *other != value)
        return fmt::format("{} is {} on {} and {} on {}", name, value.dump(), first_name,
                           other == b.end() ? "not given" : other->dump(), second_name);
  return fmt::format("the options are {} on {} and {} on {}", quoted(first), first_name,
                     quoted(second), second_name);
}

}  // namespace

std::string difference(const ModelSpec& first, const std::string& first_name,
                       const ModelSpec& second, const std::string& second_name) {
  Comparison both(first_name, second_name);
  both.same(first.workers, second.workers, "the job has ", " workers");
  both.same(first.shards, second.shards, "a step has ", " shards");
  both.same(to_string(first.policy.mode), to_string(second.policy.mode), "the mode is ", "");
  both.same(first.policy.aggregate, second.policy.aggregate, "an update needs ", " gradients");
  both.same(first.policy.staleness, second.policy.staleness, "the staleness is ", "");
  both.same(to_string(first.policy.not_finite), to_string(second.policy.not_finite),
            "the rule for gradients that are not finite is ", "");
  const std::size_t blocks = std::min(first.blocks.size(), second.blocks.size());
  for (std::size_t i = 0; i < blocks && !both.found(); ++i)
    compare_blocks(both, first.blocks[i], second.blocks[i], i);
  both.same(first.blocks.size(), second.blocks.size(), "the model has ", " blocks");
  const std::size_t tables = std::min(first.tables.size(), second.tables.size());
  for (std::size_t i = 0; i < tables && !both.found(); ++i)
    compare_tables(both, first.tables[i], second.tables[i], i);
  both.same(first.tables.size(), second.tables.size(), "the model has ", " tables");
  const std::size_t groups = std::min(first.groups.size(), second.groups.size());
  for (std::size_t i = 0; i < groups && !both.found(); ++i)
    compare_rules(both, first.groups[i], second.groups[i], i);
  both.same(first.groups.size(), second.groups.size(), "the optimizer has ", " groups");
  if (!both.found() && first.agreement != second.agreement)
    return option_difference(first.agreement, first_name, second.agreement, second_name);
  return both.take();
}

}  // namespace cohort::ps

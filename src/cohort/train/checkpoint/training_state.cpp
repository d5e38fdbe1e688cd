#include "cohort/train/checkpoint/training_state.h"

#include <fmt/format.h>

#include <cmath>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

using nlohmann::json;

// One list of members for both directions.
void visit(auto& state, auto&& member) {
  member("step", state.step);
  member("epoch", state.epoch);
  member("steps_in_epoch", state.steps_in_epoch);
  member("samples_in_epoch", state.samples_in_epoch);
  member("seed", state.seed);
  member("virtual_shards", state.virtual_shards);
  member("global_batch_size", state.global_batch_size);
  member("config", state.config);
  member("callbacks", state.callbacks);
  member("optimizers", state.optimizers);
  member("extra", state.extra);
  member("cohort_version", state.cohort_version);
  member("libtorch_version", state.libtorch_version);
  member("saved_at", state.saved_at);
}

void expect_finite(const json& value, const std::string& where) {
  if (value.is_number_float() && !std::isfinite(value.get<double>()))
    throw InvalidInput(fmt::format("the checkpoint's {} is {}, which JSON cannot hold", where,
                                   value.get<double>()),
                       {.advice = "Leave the key out until there is a number."});
  if (value.is_structured())
    for (const auto& [key, item] : value.items())
      expect_finite(item, fmt::format("{}.{}", where, key));
}

}  // namespace

json to_json(const TrainingState& state) {
  json value = json::object();
  visit(state, [&](const char* name, const auto& member) {
    value[name] = member;
    expect_finite(value[name], name);
    if constexpr (std::is_same_v<std::decay_t<decltype(member)>, std::int64_t>)
      if (member < 0) throw InvalidInput(fmt::format("the checkpoint's {} is {}", name, member));
  });
  try {
    (void)value.dump();
  } catch (const json::exception& error) {
    throw InvalidInput(fmt::format("the checkpoint's state is not UTF-8 text ({})", error.what()));
  }
  return value;
}

TrainingState training_state_from(const json& value) {
  TrainingState state;
  visit(state, [&](const char* name, auto& member) {
    auto found = value.find(name);
    if (found == value.end())
      throw InvalidInput(fmt::format("the checkpoint's {} is missing", name));
    try {
      found->get_to(member);
    } catch (const json::exception&) {
      throw InvalidInput(
          fmt::format("the checkpoint's {} is a {}", name, std::string(found->type_name())));
    }
    if constexpr (std::is_same_v<std::decay_t<decltype(member)>, std::int64_t>)
      if (member < 0 || !found->is_number_integer())
        throw InvalidInput(fmt::format("the checkpoint's {} is {}", name, found->dump()));
  });
  return state;
}

}  // namespace cohort::train

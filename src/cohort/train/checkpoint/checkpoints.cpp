#include "cohort/train/checkpoint/checkpoints.h"

#include <algorithm>
#include <exception>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/parallel/tensors/broadcast_state.h"
#include "cohort/parallel/text_exchange.h"

namespace cohort::train {
namespace {

constexpr const char* kLoop = "loop";  // in a checkpoint's `extra`: the registered values

template <typename Parts, typename NameOf>
void expect_new_name(const Parts& parts, const std::string& name, NameOf name_of) {
  if (name.empty() || name.find('.') != std::string::npos)
    throw InvalidInput(fmt::format("Checkpoints: a part cannot be called '{}'", name),
                       {.advice = "Give it a name without a dot."});
  if (std::any_of(parts.begin(), parts.end(),
                  [&](const auto& part) { return name_of(part) == name; }))
    throw InvalidInput(fmt::format("Checkpoints: there is a part '{}' already", name),
                       {.advice = "Give each part a name of its own."});
}

const auto first_of = [](const auto& part) -> const std::string& { return part.first; };

}  // namespace

Checkpoints::Checkpoints(collective::Group& group, std::filesystem::path folder,
                         CheckpointsOptions options)
    : group_(group), options_{.folder = std::move(folder), .keep_last = options.keep_last} {}

Checkpoints::~Checkpoints() {
  try {
    close();
  } catch (const std::exception& error) {
    log::error("the last checkpoint was not written: {}", error.what());
  }
}

void Checkpoints::register_module(const std::string& name, torch::nn::Module& module) {
  expect_new_name(modules_, name, first_of);
  expect_new_name(optimizers_, name, first_of);
  modules_.emplace_back(name, &module);
}

void Checkpoints::register_optimizer(const std::string& name, torch::optim::Optimizer& optimizer) {
  expect_new_name(modules_, name, first_of);
  expect_new_name(optimizers_, name, first_of);
  optimizers_.emplace_back(name, &optimizer);
}

void Checkpoints::register_json(const std::string& name, Get get, Set set) {
  expect_new_name(values_, name,
                  [](const Value& value) -> const std::string& { return value.name; });
  values_.push_back({name, std::move(get), std::move(set)});
}

// One module's parameters have their own names, as in a Trainer's checkpoint.
ParameterNames Checkpoints::names() const {
  if (modules_.empty())
    throw InvalidInput("Checkpoints: an optimizer without a module is registered",
                       {.advice = "Register the modules whose parameters it has, too."});
  ParameterNames names(*modules_[0].second);
  if (modules_.size() == 1) return names;
  names = ParameterNames(torch::nn::Module());
  for (const auto& [name, module] : modules_) names.add(name + ".", *module);
  return names;
}

Checkpoint Checkpoints::capture(std::int64_t step) const {
  Checkpoint checkpoint;
  checkpoint.state.step = step;
  nlohmann::json values = nlohmann::json::object();
  for (const Value& value : values_) values[value.name] = value.get();
  checkpoint.state.extra[kLoop] = std::move(values);
  for (const auto& [name, module] : modules_) add_module(checkpoint, name, *module);
  for (const auto& [name, optimizer] : optimizers_)
    add_optimizer(checkpoint, name, *optimizer, names());
  return checkpoint;
}

void Checkpoints::save(std::int64_t step) {
  if (step < 1) throw InvalidInput(fmt::format("Checkpoints: save() of step {}", step));
  if (group_.rank() != 0) return;
  if (!writer_) writer_ = std::make_unique<CheckpointWriter>(options_);
  writer_->save(capture(step));
}

void Checkpoints::close() {
  if (const auto writer = std::move(writer_)) writer->close();
}

// Rank 0: modules and optimizers as saved; what the others need besides.
nlohmann::json Checkpoints::load_here() {
  try {
    if (writer_) writer_->flush();
    const auto checkpoint = load_latest(options_.folder);
    if (!checkpoint) return {{"step", 0}};
    const nlohmann::json values = checkpoint->state.extra.value(kLoop, nlohmann::json::object());
    for (const Value& value : values_)
      if (!values.contains(value.name))
        throw InvalidInput(fmt::format("the checkpoint of step {} has no '{}'",
                                       checkpoint->state.step, value.name),
                           {.advice = "Register what was registered when it was saved."});
    for (const auto& [name, module] : modules_) restore_module(*checkpoint, name, *module);
    for (const auto& [name, optimizer] : optimizers_)
      restore_optimizer(*checkpoint, name, *optimizer, names());
    return {{"step", checkpoint->state.step}, {"values", values}};
  } catch (const std::exception& error) {
    return {{"error", error.what()}};
  }
}

std::int64_t Checkpoints::restore() {
  const nlohmann::json found = nlohmann::json::parse(
      parallel::broadcast_text(group_, group_.rank() == 0 ? load_here().dump() : "", 0));
  if (found.contains("error"))
    throw InvalidInput(fmt::format("no checkpoint of {} can be restored: {}",
                                   options_.folder.string(), found.at("error").get<std::string>()),
                       {.advice = "Go on as the checkpoint was made, or begin a new folder."});
  const auto step = found.at("step").get<std::int64_t>();
  if (step == 0) return 0;
  for (const auto& [name, module] : modules_) parallel::broadcast_parameters(group_, *module);
  for (const auto& [name, optimizer] : optimizers_)
    parallel::broadcast_optimizer_state(group_, *optimizer);
  for (const Value& value : values_) value.set(found.at("values").at(value.name));
  return step;
}

}  // namespace cohort::train

#include "cohort/train/checkpoint/optimizer_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "cohort/base/text.h"
#include "cohort/train/checkpoint/optimizer_classes.h"

namespace cohort::train {
namespace {

using nlohmann::json;
using optimizer_classes::state_key;
using optimizer_classes::StateMap;
using optimizer_classes::with_class;
using Pair = std::tuple<double, double>;

constexpr const char* kAdvice =
    "Save such an optimizer's state yourself, or give the optimizer that it wraps.";

// Options to JSON.
struct OptionReader {
  json& out;
  void operator()(const char* name, double value) const {
    if (!std::isfinite(value))
      throw InvalidInput(fmt::format("the optimizer's {} is {}", name, value),
                         {.advice = "Give it a finite value before saving."});
    out[name] = value;
  }
  void operator()(const char* name, bool value) const { out[name] = value; }
  void operator()(const char* name, const Pair& value) const {
    out[name] = {std::get<0>(value), std::get<1>(value)};
  }
};

// JSON to options; json::exception when one is missing or of another type.
struct OptionWriter {
  const json& in;
  void operator()(const char* name, double& value) const { value = in.at(name).get<double>(); }
  void operator()(const char* name, bool& value) const { value = in.at(name).get<bool>(); }
  void operator()(const char* name, Pair& value) const {
    value = {in.at(name).at(0).get<double>(), in.at(name).at(1).get<double>()};
  }
};

struct StateReader {
  TensorMap& tensors;
  json& scalars;
  const std::string& parameter;
  void operator()(const char* field, std::int64_t value) const { scalars[field] = value; }
  void operator()(const char* field, const torch::Tensor& value) const {
    if (value.defined()) tensors.emplace(fmt::format("{}.{}", field, parameter), value.detach());
  }
};

struct StateWriter {
  const OptimizerState& saved;
  const json& scalars;
  const std::string& name;
  const torch::Tensor& parameter;
  std::vector<std::string>& complaints;
  std::size_t& used;

  void operator()(const char* field, std::int64_t& value) const {
    value = scalars.at(field).get<std::int64_t>();
  }
  void operator()(const char* field, torch::Tensor& value) const {
    auto found = saved.tensors.find(fmt::format("{}.{}", field, name));
    if (found == saved.tensors.end()) return;
    ++used;
    const torch::Tensor& source = found->second;
    if (source.sizes() != parameter.sizes()) {
      complaints.push_back(fmt::format("'{}' has shape {}, its parameter {}", found->first,
                                       shape_text(source.sizes().vec()),
                                       shape_text(parameter.sizes().vec())));
      return;
    }
    value = torch::empty_like(parameter.detach(),
                              parameter.options().dtype(source.dtype()).requires_grad(false));
    value.copy_(source);
  }
};

std::string name_in(const ParameterNames& names, const torch::Tensor& parameter) {
  if (const auto* name = names.find(parameter)) return *name;
  throw InvalidInput(
      fmt::format("the optimizer has a parameter of shape {} that the model does not",
                  shape_text(parameter.sizes().vec())),
      {.advice = "Give the model whose parameters the optimizer was made for."});
}

std::vector<std::string> names_of(const torch::optim::OptimizerParamGroup& group,
                                  const ParameterNames& names) {
  std::vector<std::string> result;
  for (const auto& parameter : group.params()) result.push_back(name_in(names, parameter));
  return result;
}

template <typename Class>
OptimizerState capture(const torch::optim::Optimizer& optimizer, const ParameterNames& names) {
  OptimizerState saved;
  saved.scalars = {{"class", Class::kName}, {"groups", json::array()}, {"state", json::object()}};
  for (const auto& group : optimizer.param_groups()) {
    json options = json::object();
    Class::options(static_cast<const typename Class::Options&>(group.options()),
                   OptionReader{options});
    saved.scalars["groups"].push_back(
        {{"options", options}, {"parameters", names_of(group, names)}});
    for (const auto& parameter : group.params()) {
      auto found = optimizer.state().find(state_key(parameter));
      if (found == optimizer.state().end()) continue;
      const std::string name = name_in(names, parameter);
      json& scalars = saved.scalars["state"][name] = json::object();
      Class::state(static_cast<const typename Class::State&>(*found->second),
                   StateReader{saved.tensors, scalars, name});
    }
  }
  return saved;
}

// What differs between the saved groups and this optimizer's.
std::vector<std::string> compare_groups(const torch::optim::Optimizer& optimizer,
                                        const ParameterNames& names, const json& saved) {
  if (saved.size() != optimizer.param_groups().size())
    return {fmt::format("{} parameter groups were saved, the optimizer has {}", saved.size(),
                        optimizer.param_groups().size())};
  std::vector<std::string> complaints;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    auto own = names_of(optimizer.param_groups()[i], names);
    auto other = saved[i].at("parameters").get<std::vector<std::string>>();
    std::sort(own.begin(), own.end());
    std::sort(other.begin(), other.end());
    for (const auto& name : own)
      if (!std::binary_search(other.begin(), other.end(), name))
        complaints.push_back(fmt::format("group {} was saved without '{}'", i, name));
    for (const auto& name : other)
      if (!std::binary_search(own.begin(), own.end(), name))
        complaints.push_back(fmt::format("group {} has no '{}'", i, name));
  }
  return complaints;
}

[[noreturn]] void refuse(const std::vector<std::string>& complaints) {
  throw InvalidInput(
      fmt::format("the saved state is not of this optimizer: {}", join(complaints, "; ")),
      {.advice = "Build the optimizer as it was when it was saved."});
}

template <typename Class>
void restore(torch::optim::Optimizer& optimizer, const ParameterNames& names,
             const OptimizerState& saved) {
  const json& groups = saved.scalars.at("groups");
  const json& states = saved.scalars.at("state");
  if (saved.scalars.at("class") != Class::kName)
    refuse({fmt::format("it is of {}, the optimizer is {}",
                        saved.scalars.at("class").get<std::string>(), Class::kName)});
  auto complaints = compare_groups(optimizer, names, groups);
  if (!complaints.empty()) refuse(complaints);

  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> new_options;
  StateMap new_state;
  std::size_t used = 0, entries = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto& group = optimizer.param_groups()[i];
    auto options = std::make_unique<typename Class::Options>(
        static_cast<const typename Class::Options&>(group.options()));
    Class::options(*options, OptionWriter{groups[i].at("options")});
    new_options.push_back(std::move(options));
    for (const auto& parameter : group.params()) {
      const std::string name = name_in(names, parameter);
      auto scalars = states.find(name);
      if (scalars == states.end()) continue;
      ++entries;
      auto state = std::make_unique<typename Class::State>();
      Class::state(*state, StateWriter{saved, *scalars, name, parameter, complaints, used});
      new_state[state_key(parameter)] = std::move(state);
    }
  }
  if (used != saved.tensors.size() || entries != states.size())
    complaints.push_back(fmt::format("{} saved tensors and {} states belong to no parameter",
                                     saved.tensors.size() - used, states.size() - entries));
  if (!complaints.empty()) refuse(complaints);

  for (std::size_t i = 0; i < groups.size(); ++i)
    optimizer.param_groups()[i].set_options(std::move(new_options[i]));
  optimizer.state() = std::move(new_state);
}

}  // namespace

void ParameterNames::add(const std::string& prefix, const torch::nn::Module& module) {
  for (const auto& item : module.named_parameters(/*recurse=*/true))
    if (item.value().defined())
      names_.emplace(item.value().unsafeGetTensorImpl(), prefix + item.key());
}

const std::string* ParameterNames::find(const torch::Tensor& parameter) const {
  auto found = names_.find(parameter.unsafeGetTensorImpl());
  return found == names_.end() ? nullptr : &found->second;
}

OptimizerState capture_optimizer(const torch::optim::Optimizer& optimizer,
                                 const ParameterNames& names) {
  return with_class(optimizer, kAdvice,
                    [&](auto known) { return capture<decltype(known)>(optimizer, names); });
}

void restore_optimizer(torch::optim::Optimizer& optimizer, const ParameterNames& names,
                       const OptimizerState& saved) {
  torch::NoGradGuard no_grad;
  try {
    with_class(optimizer, kAdvice,
               [&](auto known) { restore<decltype(known)>(optimizer, names, saved); });
  } catch (const json::exception& error) {
    refuse({fmt::format("its description is incomplete ({})", error.what())});
  }
}

std::vector<torch::Tensor> optimizer_state_tensors(const torch::optim::Optimizer& optimizer) {
  std::vector<torch::Tensor> tensors;
  auto collect = [&](auto known) {
    using Class = decltype(known);
    for (const auto& group : optimizer.param_groups())
      for (const auto& parameter : group.params()) {
        auto found = optimizer.state().find(state_key(parameter));
        if (found == optimizer.state().end()) continue;
        Class::state(static_cast<const typename Class::State&>(*found->second),
                     [&](const char*, const auto& value) {
                       if constexpr (std::is_same_v<std::decay_t<decltype(value)>, torch::Tensor>)
                         if (value.defined()) tensors.push_back(value);
                     });
      }
  };
  with_class(optimizer, kAdvice, collect);
  return tensors;
}

}  // namespace cohort::train

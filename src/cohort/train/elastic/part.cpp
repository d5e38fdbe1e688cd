#include "cohort/train/elastic/part.h"

#include <fmt/format.h>

#include "cohort/train/checkpoint/module_state.h"
#include "cohort/train/checkpoint/optimizer_state.h"

namespace cohort::elastic {

namespace {

using nlohmann::json;

std::string describe(const torch::Tensor& tensor) {
  return fmt::format("{} {}", c10::toString(tensor.scalar_type()),
                     train::shape_text(tensor.sizes().vec()));
}

void add_tensors(TrainingSnapshot& snapshot, const std::string& part,
                 const train::TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) snapshot.tensors.emplace(part + "." + name, tensor);
}

train::TensorMap tensors_of(const TrainingSnapshot& snapshot, const std::string& part) {
  train::TensorMap tensors;
  const std::string prefix = part + ".";
  for (auto item = snapshot.tensors.lower_bound(prefix);
       item != snapshot.tensors.end() && item->first.starts_with(prefix); ++item)
    tensors.emplace(item->first.substr(prefix.size()), item->second);
  return tensors;
}

class ModulePart : public Part {
 public:
  ModulePart(std::string name, torch::nn::Module& module)
      : Part(std::move(name)), module_(module) {}

  json description() const override {
    json result = json::object();
    for (const auto& [name, tensor] : train::capture_module(module_))
      result[name] = describe(tensor);
    return result;
  }
  void capture(TrainingSnapshot& snapshot) const override {
    add_tensors(snapshot, name(), train::capture_module(module_));
  }
  void restore(const TrainingSnapshot& snapshot) override {
    train::restore_module(module_, tensors_of(snapshot, name()));
  }

 private:
  torch::nn::Module& module_;
};

// A module of the optimizer's parameters, which gives each a name by its place.
class Places : public torch::nn::Module {
 public:
  explicit Places(torch::optim::Optimizer& optimizer) {
    for (std::size_t g = 0; g < optimizer.param_groups().size(); ++g) {
      const auto& parameters = optimizer.param_groups()[g].params();
      for (std::size_t p = 0; p < parameters.size(); ++p)
        register_parameter(fmt::format("{}:{}", g, p), parameters[p],
                           parameters[p].requires_grad());
    }
  }
};

class OptimizerPart : public Part {
 public:
  OptimizerPart(std::string name, torch::optim::Optimizer& optimizer)
      : Part(std::move(name)), optimizer_(optimizer), names_(Places(optimizer)) {
    train::capture_optimizer(optimizer_, names_);  // refuses what it does not know
  }

  json description() const override {
    const auto captured = train::capture_optimizer(optimizer_, names_);
    json result = {{"class", captured.scalars.at("class")}};
    for (std::size_t g = 0; g < optimizer_.param_groups().size(); ++g)
      for (const torch::Tensor& parameter : optimizer_.param_groups()[g].params())
        result[*names_.find(parameter)] = describe(parameter);
    return result;
  }
  void capture(TrainingSnapshot& snapshot) const override {
    auto captured = train::capture_optimizer(optimizer_, names_);
    snapshot.values[name()] = std::move(captured.scalars);
    add_tensors(snapshot, name(), captured.tensors);
  }
  void restore(const TrainingSnapshot& snapshot) override {
    train::restore_optimizer(optimizer_, names_,
                             {tensors_of(snapshot, name()), snapshot.values.at(name())});
  }

 private:
  torch::optim::Optimizer& optimizer_;
  train::ParameterNames names_;
};

class TensorPart : public Part {
 public:
  TensorPart(std::string name, torch::Tensor tensor)
      : Part(std::move(name)), tensor_(tensor.detach()) {}

  json description() const override { return describe(tensor_); }
  void capture(TrainingSnapshot& snapshot) const override {
    snapshot.tensors.emplace(name(), tensor_);
  }
  void restore(const TrainingSnapshot& snapshot) override {
    const torch::NoGradGuard no_grad;
    tensor_.copy_(snapshot.tensors.at(name()));
  }

 private:
  torch::Tensor tensor_;
};

class SamplerPart : public Part {
 public:
  SamplerPart(std::string name, train::ElasticSampler& sampler)
      : Part(std::move(name)), sampler_(sampler) {}

  json description() const override {
    return {{"samples", sampler_.samples()},
            {"batch_size", sampler_.options().batch_size},
            {"shuffle", sampler_.options().shuffle},
            {"seed", sampler_.options().seed}};
  }
  void capture(TrainingSnapshot& snapshot) const override {
    snapshot.values[name()] = sampler_.position();
  }
  void restore(const TrainingSnapshot& snapshot) override {
    sampler_.set_position(snapshot.values.at(name()));
  }
  void set_members(int rank, int size) override { sampler_.set_members(rank, size); }

 private:
  train::ElasticSampler& sampler_;
};

class ValuePart : public Part {
 public:
  ValuePart(std::string name, std::string type, std::function<json()> read,
            std::function<void(const json&)> write)
      : Part(std::move(name)),
        type_(std::move(type)),
        read_(std::move(read)),
        write_(std::move(write)) {}

  json description() const override { return type_; }
  void capture(TrainingSnapshot& snapshot) const override { snapshot.values[name()] = read_(); }
  void restore(const TrainingSnapshot& snapshot) override { write_(snapshot.values.at(name())); }

 private:
  std::string type_;
  std::function<json()> read_;
  std::function<void(const json&)> write_;
};

}  // namespace

std::unique_ptr<Part> make_module_part(std::string name, torch::nn::Module& module) {
  return std::make_unique<ModulePart>(std::move(name), module);
}
std::unique_ptr<Part> make_optimizer_part(std::string name, torch::optim::Optimizer& optimizer) {
  return std::make_unique<OptimizerPart>(std::move(name), optimizer);
}
std::unique_ptr<Part> make_tensor_part(std::string name, torch::Tensor tensor) {
  return std::make_unique<TensorPart>(std::move(name), std::move(tensor));
}
std::unique_ptr<Part> make_sampler_part(std::string name, train::ElasticSampler& sampler) {
  return std::make_unique<SamplerPart>(std::move(name), sampler);
}
std::unique_ptr<Part> make_value_part(std::string name, std::string type,
                                      std::function<json()> read,
                                      std::function<void(const json&)> write) {
  return std::make_unique<ValuePart>(std::move(name), std::move(type), std::move(read),
                                     std::move(write));
}

}  // namespace cohort::elastic

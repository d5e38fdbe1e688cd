#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cohort/train/data/elastic_sampler.h"
#include "cohort/train/elastic/snapshot.h"

namespace cohort::elastic {

// One registered thing: how to read and write it. The thing must outlive it. Confined to the thread
// that trains.
class Part {
 public:
  explicit Part(std::string name) : name_(std::move(name)) {}
  virtual ~Part() = default;

  const std::string& name() const { return name_; }
  // What must be the same on every worker: names, types and shapes.
  virtual nlohmann::json description() const = 0;
  // Adds what it is now under its name; tensors share its memory.
  virtual void capture(TrainingSnapshot& snapshot) const = 0;
  // Back to what a capture() of this part, here or on another worker, has found.
  virtual void restore(const TrainingSnapshot& snapshot) = 0;
  // The view's members, after each change.
  virtual void set_members(int /*rank*/, int /*size*/) {}

 private:
  std::string name_;
};

std::unique_ptr<Part> make_module_part(std::string name, torch::nn::Module& module);
// InvalidInput for a class whose state is not known (optimizer_state.h).
std::unique_ptr<Part> make_optimizer_part(std::string name, torch::optim::Optimizer& optimizer);
std::unique_ptr<Part> make_tensor_part(std::string name, torch::Tensor tensor);
std::unique_ptr<Part> make_sampler_part(std::string name, train::ElasticSampler& sampler);
std::unique_ptr<Part> make_value_part(std::string name, std::string type,
                                      std::function<nlohmann::json()> read,
                                      std::function<void(const nlohmann::json&)> write);

}  // namespace cohort::elastic

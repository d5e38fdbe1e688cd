#pragma once

#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

namespace cohort::train {

// An optimizer's learning rate: a base, times the factors that callbacks put in (warm-up, decay),
// each under its own name so that they go together. Parameter groups keep the ratios that they had
// when this was made. `optimizer` must outlive it. Thread-compatible.
class LearningRate {
 public:
  explicit LearningRate(torch::optim::Optimizer& optimizer);

  double base() const { return base_; }
  double get() const;  // the rate in use, of the first parameter group

  void set_base(double rate);
  void set_factor(const std::string& name, double factor);
  // The rate itself, until a base or factor changes: for replicas that follow another's.
  void apply(double rate);

 private:
  void update();

  torch::optim::Optimizer& optimizer_;
  double base_;
  std::map<std::string, double> factors_;
  std::vector<double> ratios_;  // of the groups to the first
};

}  // namespace cohort::train

#pragma once

#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

namespace cohort::train {

// The learning rate of an optimizer, or of several that train together: a base, times the factors
// that callbacks put in (warm-up, decay), each under its own name so that they go together. All
// parameter groups of all optimizers keep the ratios that they had when this was made. The base is
// the rate of the first group whose rate is not 0. The optimizers must outlive it.
// Thread-compatible.
class LearningRate {
 public:
  explicit LearningRate(torch::optim::Optimizer& optimizer)
      : LearningRate(std::vector{&optimizer}) {}
  explicit LearningRate(std::vector<torch::optim::Optimizer*> optimizers);

  double base() const { return base_; }
  double get() const;                      // the rate in use, of the group that is the base
  double of(std::size_t optimizer) const;  // of its first parameter group

  void set_base(double rate);
  void set_factor(const std::string& name, double factor);
  // One factor for each group of all optimizers; groups that there are more have the first one's.
  void set_factors(const std::string& name, std::vector<double> factors);

  // Of all groups of all optimizers: without factors, and in use.
  std::vector<double> base_rates() const;
  std::vector<double> rates() const;
  // The rates themselves, until a base or factor changes: for replicas that follow another's.
  void apply(const std::vector<double>& rates);

 private:
  void update();

  std::vector<torch::optim::Optimizer*> optimizers_;
  double base_ = 0;
  std::map<std::string, std::vector<double>> factors_;  // one for all groups, or one each
  std::vector<double> ratios_;  // of the groups of all optimizers to the base
  std::size_t base_group_ = 0;
};

}  // namespace cohort::train

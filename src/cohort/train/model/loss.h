#pragma once

#include <torch/torch.h>

#include <map>
#include <optional>
#include <string>
#include <type_traits>

namespace cohort::train {

// What a mean counts with when the means of several batches become one: how many samples, tokens or
// pixels it is the mean of. A number, or a tensor of one element, which stays on its device and is
// read at the step's end. Unset: the samples of the batch.
// A value. Failure: InvalidInput for what is not finite, negative, or more than one element; for a
// tensor on a device at the step's end.
class Weight {
 public:
  Weight() = default;
  template <typename T>
  requires std::is_arithmetic_v<T> Weight(T number)
      : number_(checked(static_cast<double>(number))) {}  // NOLINT
  Weight(const torch::Tensor& tensor);                    // NOLINT

  bool is_set() const { return number_ || tensor_.defined(); }
  // One of the two, where it is set: a tensor only where its value is on a device.
  const std::optional<double>& number() const { return number_; }
  const torch::Tensor& tensor() const { return tensor_; }

  static double checked(double number);

 private:
  std::optional<double> number_;
  torch::Tensor tensor_;  // no dimensions, without a graph
};

// What a training step makes of a batch: a mean and what it is the mean of.
//
//   return Loss{.mean = sum / tokens, .weight = tokens, .output = logits, .target = labels};
//
// A step's loss is the mean over all its batches, on whichever worker and however many: the sum of
// mean * weight, divided once by the sum of the weights. A batch of weight 0 counts for nothing,
// whatever its mean is; a step whose weights are all 0 updates nothing and its loss is 0.
struct Loss {
  torch::Tensor mean = {};  // of one element, differentiable
  Weight weight = {};
  torch::Tensor output = {}, target = {};            // for metrics; may be undefined
  std::map<std::string, torch::Tensor> values = {};  // further means over the same weight, by name
};

}  // namespace cohort::train

#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/train/data/dataset.h"
#include "cohort/train/data/image_store.h"

namespace cohort::train {

// Any data set of torch::data that gives examples by number (torch::data::Example<>), mapped or
// not, stacked or not. LibTorch's data sets promise nothing about threads, so calls are made one at
// a time. One that draws random numbers does so from its own generator, not from the key.
template <typename Inner>
class TorchDataset final : public Dataset {
  using Example = torch::data::Example<>;
  using Examples = typename Inner::BatchType;
  static_assert(std::is_same_v<Examples, Example> || std::is_same_v<Examples, std::vector<Example>>,
                "adapt() takes a data set of torch::data::Example<>, or one that stacks them");

 public:
  explicit TorchDataset(Inner dataset) : dataset_(std::move(dataset)) {
    const auto size = dataset_.size();
    if (!size.has_value()) throw InvalidInput("a data set without a size cannot be split");
    size_ = static_cast<std::int64_t>(*size);
  }

  std::int64_t size() const override { return size_; }

  Batch get(std::span<const std::int64_t> indices, const DrawKey&) const override {
    check_indices(indices, size_);
    if (indices.empty()) {
      if (size_ == 0) return {};
      const Batch one = get_batch({0});
      return {one.data.narrow(0, 0, 0), one.target.narrow(0, 0, 0)};
    }
    return get_batch(std::vector<std::size_t>(indices.begin(), indices.end()));
  }

 private:
  Batch get_batch(const std::vector<std::size_t>& indices) const {
    const std::lock_guard lock(mutex_);
    Examples examples = dataset_.get_batch(indices);
    if constexpr (std::is_same_v<Examples, Example>) {
      return {examples.data, examples.target};
    } else {
      std::vector<torch::Tensor> data, target;
      for (Example& example : examples) {
        data.push_back(std::move(example.data));
        target.push_back(std::move(example.target));
      }
      return {torch::stack(data), torch::stack(target)};
    }
  }

  mutable std::mutex mutex_;
  mutable Inner dataset_;  // guarded by mutex_: its get_batch() is not const
  std::int64_t size_ = 0;
};

// adapt(torch::data::datasets::MNIST(folder).map(torch::data::transforms::Normalize<>(0.13, 0.31)))
template <typename Inner>
DatasetPtr adapt(Inner dataset) {
  return std::make_shared<TorchDataset<Inner>>(std::move(dataset));
}

}  // namespace cohort::train

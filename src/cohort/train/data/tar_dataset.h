#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/train/data/dataset.h"
#include "cohort/train/data/stack_samples.h"
#include "cohort/train/data/tar_samples.h"

namespace cohort::train {

// Samples in tar archives, as WebDataset has them (tar_samples.h), made into tensors by a function
// of yours: of one sample, without the batch's dimension.
//
//   struct Item { torch::Tensor image, label; };
//   auto data = std::make_shared<cohort::TarDataset<Item>>(
//       std::vector<std::filesystem::path>{"train-000.tar", "train-001.tar"},
//       [](const cohort::TarSample& sample) {
//         return Item{cohort::npy_tensor(sample.file("npy")), cohort::class_tensor(sample.file("cls"))};
//       });
//
// The function is called by several threads at once. With B = Batch it is a data set of pairs.
// Thread-safe: all methods are const. Failure: InvalidInput names archive, sample and offset; what
// the function throws as InvalidInput is told with them.
template <BatchType B>
class TarDataset final : public DatasetOf<B> {
 public:
  using Decode = std::function<B(const TarSample&)>;

  TarDataset(const std::vector<std::filesystem::path>& archives, Decode decode)
      : samples_(archives), decode_(std::move(decode)) {}

  std::int64_t size() const override { return samples_.size(); }

  B get(std::span<const std::int64_t> indices, const DrawKey&) const override {
    if (indices.empty()) {  // the shapes of a sample, and no rows
      return map_tensors(stack_samples<B>({decode(0)}),
                         [](const torch::Tensor& tensor) { return tensor.narrow(0, 0, 0); });
    }
    std::vector<B> batch;
    for (const std::int64_t index : indices) batch.push_back(decode(index));
    return stack_samples(batch);
  }

 private:
  B decode(std::int64_t index) const {
    const TarSample sample = samples_.read(index);
    try {
      return decode_(sample);
    } catch (const InvalidInput& error) {
      if (error.message().find(sample.origin) != std::string::npos) throw;
      throw InvalidInput(fmt::format("{}: {}", sample.origin, error.message()),
                         {.advice = error.context().advice});
    }
  }

  TarSamples samples_;
  Decode decode_;
};

// Contents of files as tensors. InvalidInput for what is none.
torch::Tensor npy_tensor(std::string_view bytes);    // a .npy file: its type and shape
torch::Tensor class_tensor(std::string_view text);   // "7\n": int64, one number
torch::Tensor bytes_tensor(std::string_view bytes);  // uint8, one dimension

}  // namespace cohort::train

#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cohort/train/data/dataset.h"
#include "cohort/train/data/image_pass.h"
#include "cohort/train/data/split_load.h"

namespace cohort::train {

// Where the rows and columns of one output image come from.
struct ImageAxes {
  AxisMap rows, columns;
};

// Float images out of stored pixels in two halves, with the bits of pass_image(). The host gives for
// each sample the row and the column that each coordinate of the output comes from; the device adds
// them up to places in one long list of pixels, reads the pixels there, and looks their values up in
// a table of all (channel, pixel) pairs:
//   pixels  uint8, places x channels: those of the batch, or of all samples where they are kept on
//           the device; the last place stands for everything outside of an image
//   maps    int64, samples x (1 + rows + columns): the sample's number, then the first place of each
//           row, then the columns
// Contract: that of SplitLoad.
class ImageSplit final : public SplitLoad {
 public:
  // Of the sample `index`; all samples have outputs of one size.
  using AxesOf = std::function<ImageAxes(const DrawKey& key, std::int64_t index)>;

  // `dataset` gives the pixels of a batch where `images` does not have those of all samples.
  ImageSplit(const Dataset& dataset, RawImages images, PixelScale scale, AxesOf axes,
             const SplitOptions& options);

  std::vector<torch::Tensor> common(torch::Device device) const override;
  std::vector<torch::Tensor> on_host(std::span<const std::int64_t> indices,
                                     const DrawKey& key) const override;
  AnyBatch on_device(std::span<const torch::Tensor> common,
                     std::span<const torch::Tensor> given) const override;

 private:
  bool has_all() const { return images_.pixels.defined(); }

  const Dataset& dataset_;
  RawImages images_;
  PixelScale scale_;
  AxesOf axes_;
  SplitOptions options_;
  std::int64_t rows_, columns_;  // of an output image
  bool padding_is_black_;        // else it is a value that no pixel stands for
};

}  // namespace cohort::train

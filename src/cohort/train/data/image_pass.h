#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cohort/train/data/image_store.h"

// The one pass that every image of a batch goes through: pixels to floats, cropped, padded, flipped
// and normalised by index arithmetic, without a copy in between.
namespace cohort::train {

// Where each coordinate of one axis of the output comes from: x in [first, last) is
// origin + step * x of the input; other x are padding. Operations compose in the order of the
// calls, and give what doing them one after another would.
struct AxisMap {
  explicit AxisMap(std::int64_t input_size) : size(input_size), last(input_size) {}

  // The output begins at `offset` (negative: padding in front) and is `new_size` long.
  void crop(std::int64_t offset, std::int64_t new_size);
  void flip();

  std::int64_t size;  // of the output
  std::int64_t origin = 0;
  std::int64_t step = 1;
  std::int64_t first = 0;
  std::int64_t last;
};

// What a value of each channel becomes. uint8 pixels count as 0 to 1 (divided by 255).
class PixelScale {
 public:
  // (x - mean) / std, one of each a channel. `padding_is_normalised`: padding is 0 in the output
  // (crops came after the normalisation), not a black pixel.
  PixelScale(std::vector<float> mean, std::vector<float> std, bool padding_is_normalised);
  // No normalisation.
  explicit PixelScale(std::int64_t channels);

  std::int64_t channels() const { return static_cast<std::int64_t>(mean_.size()); }
  float padding(std::int64_t channel) const { return padding_[static_cast<std::size_t>(channel)]; }

  // What each of the values of a uint8 pixel becomes.
  std::span<const float, 256> table(std::int64_t channel) const {
    return tables_[static_cast<std::size_t>(channel)];
  }

  // A function from an input value to an output value, for the inner loop.
  auto of(std::int64_t channel, const std::uint8_t*) const {
    const float* table = tables_[static_cast<std::size_t>(channel)].data();
    return [table](std::uint8_t value) { return table[value]; };
  }
  auto of(std::int64_t channel, const float*) const {
    const float mean = mean_[static_cast<std::size_t>(channel)];
    const float std = std_[static_cast<std::size_t>(channel)];
    return [mean, std](float value) { return (value - mean) / std; };
  }

 private:
  std::vector<float> mean_, std_, padding_;
  std::vector<std::array<float, 256>> tables_;
};

// One image: `in` of `shape` (CHW) to `out` (shape.channels x rows.size x columns.size).
void pass_image(const std::uint8_t* in, const ImageShape& shape, const AxisMap& rows,
                const AxisMap& columns, const PixelScale& scale, float* out);
void pass_image(const float* in, const ImageShape& shape, const AxisMap& rows,
                const AxisMap& columns, const PixelScale& scale, float* out);

}  // namespace cohort::train

#include "cohort/train/data/image_pass.h"

#include <algorithm>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

template <typename Pixel>
void pass(const Pixel* in, const ImageShape& shape, const AxisMap& rows, const AxisMap& columns,
          const PixelScale& scale, float* out) {
  const std::int64_t width = columns.size;
  for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
    const auto value = scale.of(channel, in);
    const float padding = scale.padding(channel);
    const Pixel* plane = in + channel * shape.height * shape.width;
    for (std::int64_t y = 0; y < rows.size; ++y, out += width) {
      if (y < rows.first || y >= rows.last) {
        std::fill(out, out + width, padding);
        continue;
      }
      std::fill(out, out + columns.first, padding);
      const Pixel* from = plane + (rows.origin + rows.step * y) * shape.width + columns.origin +
                          columns.step * columns.first;
      float* to = out + columns.first;
      const std::int64_t count = columns.last - columns.first;
      if (columns.step == 1)
        for (std::int64_t x = 0; x < count; ++x) to[x] = value(from[x]);
      else
        for (std::int64_t x = 0; x < count; ++x) to[x] = value(from[-x]);
      std::fill(out + columns.last, out + width, padding);
    }
  }
}

}  // namespace

void AxisMap::crop(std::int64_t offset, std::int64_t new_size) {
  origin += step * offset;
  size = new_size;
  first = std::clamp<std::int64_t>(first - offset, 0, size);
  last = std::clamp<std::int64_t>(last - offset, first, size);
}

void AxisMap::flip() {
  origin += step * (size - 1);
  step = -step;
  const std::int64_t mirrored_last = size - first;
  first = size - last;
  last = mirrored_last;
}

PixelScale::PixelScale(std::vector<float> mean, std::vector<float> std, bool padding_is_normalised)
    : mean_(std::move(mean)), std_(std::move(std)) {
  COHORT_CHECK(mean_.size() == std_.size(), "{} means, {} deviations", mean_.size(), std_.size());
  for (std::size_t channel = 0; channel < mean_.size(); ++channel) {
    auto& table = tables_.emplace_back();
    for (std::size_t value = 0; value < table.size(); ++value)
      table[value] = (static_cast<float>(value) / 255.0f - mean_[channel]) / std_[channel];
    padding_.push_back(padding_is_normalised ? 0.0f : table[0]);
  }
}

PixelScale::PixelScale(std::int64_t channels)
    : PixelScale(std::vector<float>(static_cast<std::size_t>(channels), 0.0f),
                 std::vector<float>(static_cast<std::size_t>(channels), 1.0f), false) {}

void pass_image(const std::uint8_t* in, const ImageShape& shape, const AxisMap& rows,
                const AxisMap& columns, const PixelScale& scale, float* out) {
  pass(in, shape, rows, columns, scale, out);
}

void pass_image(const float* in, const ImageShape& shape, const AxisMap& rows,
                const AxisMap& columns, const PixelScale& scale, float* out) {
  pass(in, shape, rows, columns, scale, out);
}

}  // namespace cohort::train

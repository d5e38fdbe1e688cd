#include "cohort/train/data/image_store.h"

#include <cstring>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::train {

void check_indices(std::span<const std::int64_t> indices, std::int64_t size) {
  for (const std::int64_t index : indices)
    if (index < 0 || index >= size)
      throw InvalidInput(fmt::format("sample {} was asked for; the data set has samples 0 to {}",
                                     index, size - 1));
}

MemoryImages::MemoryImages(ImageShape shape, std::vector<std::uint8_t> pixels,
                           std::vector<std::uint8_t> labels)
    : shape_(shape), pixels_(std::move(pixels)), labels_(std::move(labels)) {
  if (pixels_.size() != labels_.size() * static_cast<std::size_t>(shape_.bytes()))
    throw InvalidInput(fmt::format("{} bytes of pixels do not make {} images of {} x {} x {}",
                                   pixels_.size(), labels_.size(), shape_.channels, shape_.height,
                                   shape_.width));
}

void MemoryImages::read(std::span<const std::int64_t> indices, std::uint8_t* pixels,
                        std::int64_t* labels) const {
  check_indices(indices, size());
  const auto bytes = static_cast<std::size_t>(shape_.bytes());
  for (const std::int64_t index : indices) {
    const auto at = static_cast<std::size_t>(index);
    std::memcpy(pixels, pixels_.data() + at * bytes, bytes);
    pixels += bytes;
    *labels++ = labels_[at];
  }
}

}  // namespace cohort::train

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cohort::train {

// Of one image; the pixels of a channel lie together, row by row (CHW).
struct ImageShape {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;

  std::int64_t bytes() const { return channels * height * width; }
  bool operator==(const ImageShape&) const = default;
};

// Labelled images of one shape, uint8, by number. Thread-safe: all methods are const.
class ImageStore {
 public:
  virtual ~ImageStore() = default;
  virtual ImageShape shape() const = 0;
  virtual std::int64_t size() const = 0;
  // Writes the images of `indices` one after another to `pixels` (indices.size() *
  // shape().bytes()), their labels to `labels`. An index outside [0, size()) is InvalidInput.
  virtual void read(std::span<const std::int64_t> indices, std::uint8_t* pixels,
                    std::int64_t* labels) const = 0;
  // All pixels and all labels where they lie in memory one after another; else empty.
  struct InMemory {
    std::span<const std::uint8_t> pixels, labels;
  };
  virtual InMemory in_memory() const { return {}; }
};

// Held in memory.
class MemoryImages final : public ImageStore {
 public:
  // pixels.size() == labels.size() * shape.bytes(), else InvalidInput.
  MemoryImages(ImageShape shape, std::vector<std::uint8_t> pixels,
               std::vector<std::uint8_t> labels);

  ImageShape shape() const override { return shape_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  void read(std::span<const std::int64_t> indices, std::uint8_t* pixels,
            std::int64_t* labels) const override;
  InMemory in_memory() const override { return {pixels_, labels_}; }

 private:
  ImageShape shape_;
  std::vector<std::uint8_t> pixels_;
  std::vector<std::uint8_t> labels_;
};

// Throws InvalidInput that names the first index outside [0, size).
void check_indices(std::span<const std::int64_t> indices, std::int64_t size);

}  // namespace cohort::train

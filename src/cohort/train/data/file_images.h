#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cohort/base/unique_fd.h"
#include "cohort/train/data/data_file.h"
#include "cohort/train/data/image_store.h"

namespace cohort::train {

// Images that stay in their files: each read takes the records it needs (pread), so that memory
// holds no more than the batches under way. Labels lie in front of each image, or are given.
class FileImages final : public ImageStore {
 public:
  // `count` records from `offset` on: an image each, with `label_first` a byte with its label
  // before it.
  struct Segment {
    DataFile file;
    UniqueFd fd;
    std::int64_t count = 0;
    std::int64_t offset = 0;
    bool label_first = false;
  };

  // `classes`: labels are 0 to classes - 1; those in records are checked when they are read.
  // `labels`: for segments without labels of their own.
  FileImages(ImageShape shape, std::vector<Segment> segments, int classes,
             std::vector<std::uint8_t> labels = {});

  ImageShape shape() const override { return shape_; }
  std::int64_t size() const override { return size_; }
  void read(std::span<const std::int64_t> indices, std::uint8_t* pixels,
            std::int64_t* labels) const override;

 private:
  void read_record(const Segment& segment, std::int64_t record, std::uint8_t* pixels,
                   std::uint8_t* label) const;

  ImageShape shape_;
  std::vector<Segment> segments_;
  int classes_;
  std::vector<std::uint8_t> labels_;
  std::int64_t size_ = 0;
};

// A file to pread from: `file` itself, or, when it is a gzip file, a nameless temporary one (in
// TMPDIR) that holds its bytes unpacked and goes when the descriptor is closed. At most `most`
// bytes.
UniqueFd open_unpacked(const DataFile& file, std::uint64_t most);

}  // namespace cohort::train

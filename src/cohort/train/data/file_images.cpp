#include "cohort/train/data/file_images.h"

#include <fcntl.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

void write_all(int fd, std::span<const std::uint8_t> bytes, const std::string& folder) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count >= 0)
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    else if (errno != EINTR)
      throw SystemError(
          fmt::format("cannot write a temporary file in '{}'", folder), errno,
          {.advice = "Set TMPDIR to a folder with room, or unpack the data: gunzip."});
  }
}

}  // namespace

FileImages::FileImages(ImageShape shape, std::vector<Segment> segments, int classes,
                       std::vector<std::uint8_t> labels)
    : shape_(shape), segments_(std::move(segments)), classes_(classes), labels_(std::move(labels)) {
  for (const Segment& segment : segments_) {
    size_ += segment.count;
    COHORT_CHECK(segment.label_first || !labels_.empty() || segment.count == 0,
                 "images need labels");
  }
  COHORT_CHECK(labels_.empty() || static_cast<std::int64_t>(labels_.size()) == size_,
               "{} labels for {} images", labels_.size(), size_);
}

void FileImages::read_record(const Segment& segment, std::int64_t record, std::uint8_t* pixels,
                             std::uint8_t* label) const {
  const auto bytes = static_cast<std::size_t>(shape_.bytes());
  const std::int64_t stride = shape_.bytes() + (segment.label_first ? 1 : 0);
  const iovec parts[] = {{label, 1}, {pixels, bytes}};
  const iovec* first = segment.label_first ? parts : parts + 1;
  ssize_t count;
  do {
    count = ::preadv(segment.fd.get(), first, segment.label_first ? 2 : 1,
                     segment.offset + record * stride);
  } while (count < 0 && errno == EINTR);
  if (count < 0)
    segment.file.refuse(fmt::format("image {} cannot be read: {}", record, std::strerror(errno)));
  if (count != stride)
    segment.file.refuse(
        fmt::format("ends inside image {}: it has become shorter since it was opened", record));
}

void FileImages::read(std::span<const std::int64_t> indices, std::uint8_t* pixels,
                      std::int64_t* labels) const {
  check_indices(indices, size_);
  for (const std::int64_t index : indices) {
    std::int64_t record = index;
    auto segment = segments_.begin();
    while (record >= segment->count) record -= (segment++)->count;
    std::uint8_t label = 0;
    read_record(*segment, record, pixels, &label);
    if (!segment->label_first) label = labels_[static_cast<std::size_t>(index)];
    if (label >= classes_)
      segment->file.refuse(
          fmt::format("record {} has label {}, expected 0 to {}", record, label, classes_ - 1));
    pixels += shape_.bytes();
    *labels++ = label;
  }
}

UniqueFd open_unpacked(const DataFile& file, std::uint64_t most) {
  DataReader reader(file);
  if (!reader.compressed()) {
    UniqueFd fd(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) file.refuse(fmt::format("cannot be opened: {}", std::strerror(errno)));
    return fd;
  }
  const std::string folder = std::filesystem::temp_directory_path().string();
  std::string name = folder + "/cohort-data-XXXXXX";
  UniqueFd fd(::mkostemp(name.data(), O_CLOEXEC));
  if (!fd)
    throw SystemError(fmt::format("cannot make a temporary file in '{}'", folder), errno,
                      {.advice = "Set TMPDIR to a folder that can be written."});
  ::unlink(name.c_str());
  std::vector<std::uint8_t> buffer(1 << 20);
  std::uint64_t written = 0;
  while (const std::size_t count = reader.read_some(buffer)) {
    written += count;
    if (written > most)
      file.refuse("is too long: more bytes follow than its header or layout says");
    write_all(fd.get(), std::span(buffer).first(count), folder);
  }
  return fd;
}

}  // namespace cohort::train

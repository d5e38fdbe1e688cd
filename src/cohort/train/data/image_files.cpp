#include "cohort/train/data/image_files.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/train/data/file_images.h"
#include "cohort/train/data/idx.h"

namespace cohort::train {
namespace fs = std::filesystem;
namespace {

constexpr int kClasses = 10;
constexpr ImageShape kCifarShape{3, 32, 32};
constexpr std::int64_t kCifarRecords = 10'000;
constexpr std::int64_t kCifarRecordBytes = 3073;
constexpr const char* kDebianFashionMnist = "/usr/share/datasets/fashion-mnist";

// `folder` is where the data was looked for; empty when none was named.
std::string advice_for(std::string_view name, fs::path folder) {
  // get-data makes cifar-10-batches-bin in the folder that it is given.
  if (!folder.empty() && !folder.has_filename()) folder = folder.parent_path();
  if (name == "cifar10" && folder.filename() == "cifar-10-batches-bin")
    folder = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  std::string advice = fmt::format("Get it with: scripts/get-data {} {}", name,
                                   folder.empty() ? "DIR" : shell_quote(folder.string()));
  if (name == "fashion-mnist") advice += " (or: apt-get install dataset-fashion-mnist)";
  return advice;
}

// The name as it is, or with .gz when only that is there.
DataFile idx_file(const fs::path& folder, const std::string& stem, std::string_view name) {
  DataFile file{folder / stem, advice_for(name, folder)};
  const fs::path packed = folder / (stem + ".gz");
  if (!fs::exists(file.path) && fs::exists(packed)) file.path = packed;
  return file;
}

void check_labels(std::span<const std::uint8_t> labels, int classes, const DataFile& file) {
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels[i] >= classes)
      file.refuse(fmt::format("label {} is {}, expected 0 to {}", i, labels[i], classes - 1));
}

void check_counts(std::int64_t images, const DataFile& image_file, std::size_t labels,
                  const DataFile& label_file) {
  if (static_cast<std::uint64_t>(images) != labels)
    label_file.refuse(
        fmt::format("holds {} labels, but '{}' holds {} images; they do not belong together",
                    labels, image_file.path.string(), images));
}

std::shared_ptr<const ImageStore> stream_idx(const DataFile& images,
                                             std::vector<std::uint8_t> labels,
                                             const DataFile& label_file, int classes) {
  IdxHeader header;
  {
    DataReader reader(images);
    header = read_idx_header(reader);
  }
  expect_bytes(header, 3, images);
  check_counts(header.dims[0], images, labels.size(), label_file);
  const std::int64_t expected = header.header_bytes() + header.bytes();
  FileImages::Segment segment{.file = images,
                              .fd = open_unpacked(images, static_cast<std::uint64_t>(expected)),
                              .count = header.dims[0],
                              .offset = header.header_bytes()};
  if (const off_t size = ::lseek(segment.fd.get(), 0, SEEK_END); size != expected)
    images.refuse(fmt::format("{} bytes{}, expected {}", size,
                              images.path.extension() == ".gz" ? " unpacked" : "", expected));
  std::vector<FileImages::Segment> segments;
  segments.push_back(std::move(segment));
  return std::make_shared<FileImages>(ImageShape{1, header.dims[1], header.dims[2]},
                                      std::move(segments), classes, std::move(labels));
}

// Appends one batch file's images and labels.
void read_cifar_file(const DataFile& file, std::vector<std::uint8_t>& pixels,
                     std::vector<std::uint8_t>& labels) {
  DataReader reader(file);
  const std::size_t first = labels.size();
  std::vector<std::uint8_t> records(static_cast<std::size_t>(kCifarRecords * kCifarRecordBytes));
  reader.read(records, "10000 records of 3073 bytes");
  reader.expect_end();
  for (auto at = records.begin(); at != records.end(); at += kCifarRecordBytes) {
    labels.push_back(*at);
    pixels.insert(pixels.end(), at + 1, at + kCifarRecordBytes);
  }
  check_labels(std::span(labels).subspan(first), kClasses, file);
}

FileImages::Segment stream_cifar_file(const DataFile& file) {
  constexpr std::int64_t kExpected = kCifarRecords * kCifarRecordBytes;
  FileImages::Segment segment{.file = file,
                              .fd = open_unpacked(file, kExpected),
                              .count = kCifarRecords,
                              .label_first = true};
  if (const off_t size = ::lseek(segment.fd.get(), 0, SEEK_END); size != kExpected)
    file.refuse(fmt::format("{} bytes, expected {} (10000 records of 3073)", size, kExpected));
  return segment;
}

}  // namespace

std::shared_ptr<const ImageStore> open_idx_images(const DataFile& images, const DataFile& labels,
                                                  int classes, Storage storage) {
  std::vector<std::uint8_t> numbers = read_idx_bytes(labels, 1).bytes;
  check_labels(numbers, classes, labels);
  if (storage == Storage::kStream) return stream_idx(images, std::move(numbers), labels, classes);
  IdxArray array = read_idx_bytes(images, 3);
  check_counts(array.header.dims[0], images, numbers.size(), labels);
  return std::make_shared<MemoryImages>(ImageShape{1, array.header.dims[1], array.header.dims[2]},
                                        std::move(array.bytes), std::move(numbers));
}

std::shared_ptr<const ImageStore> open_mnist(const fs::path& folder, Split split, Storage storage,
                                             std::string_view name) {
  const std::string stem = split == Split::kTrain ? "train" : "t10k";
  return open_idx_images(idx_file(folder, stem + "-images-idx3-ubyte", name),
                         idx_file(folder, stem + "-labels-idx1-ubyte", name), kClasses, storage);
}

void expect_shape(const ImageStore& images, const ImageShape& shape, std::string_view name,
                  const fs::path& folder) {
  const ImageShape found = images.shape();
  if (found == shape) return;
  throw InvalidInput(
      fmt::format("the images in '{}' have {} x {} pixels, but those of {} have {} x {}",
                  folder.string(), found.height, found.width, name, shape.height, shape.width),
      {.advice = advice_for(name, folder)});
}

std::shared_ptr<const ImageStore> open_cifar10(const fs::path& folder, Split split,
                                               Storage storage) {
  const fs::path inner = folder / "cifar-10-batches-bin";
  const fs::path batches = fs::is_directory(inner) ? inner : folder;
  const std::string advice = advice_for("cifar10", folder);
  std::vector<DataFile> files;
  for (int i = 1; i <= 5 && split == Split::kTrain; ++i)
    files.push_back({batches / fmt::format("data_batch_{}.bin", i), advice});
  if (split == Split::kTest) files.push_back({batches / "test_batch.bin", advice});

  if (storage == Storage::kStream) {
    std::vector<FileImages::Segment> segments;
    for (const DataFile& file : files) segments.push_back(stream_cifar_file(file));
    return std::make_shared<FileImages>(kCifarShape, std::move(segments), kClasses);
  }
  std::vector<std::uint8_t> pixels, labels;
  pixels.reserve(files.size() * static_cast<std::size_t>(kCifarRecords * kCifarShape.bytes()));
  for (const DataFile& file : files) read_cifar_file(file, pixels, labels);
  return std::make_shared<MemoryImages>(kCifarShape, std::move(pixels), std::move(labels));
}

fs::path data_folder(std::string_view name, const std::string& data_dir) {
  constexpr std::array<std::string_view, 3> kNames{"fashion-mnist", "mnist", "cifar10"};
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end())
    throw InvalidInput(
        fmt::format("there is no data set '{}'; there are fashion-mnist, mnist and cifar10", name));
  if (!data_dir.empty()) {
    if (fs::is_directory(data_dir)) return data_dir;
    throw InvalidInput(fmt::format("--data_dir '{}' is not a folder", data_dir),
                       {.advice = advice_for(name, data_dir)});
  }
  if (name == "fashion-mnist" && fs::is_directory(kDebianFashionMnist)) return kDebianFashionMnist;
  throw InvalidInput(fmt::format("the data set {} is not here and no --data_dir was given", name),
                     {.advice = advice_for(name, {}) + ", then give --data_dir DIR."});
}

}  // namespace cohort::train

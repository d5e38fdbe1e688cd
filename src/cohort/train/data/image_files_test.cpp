#include "cohort/train/data/image_files.h"

#include <gmock/gmock.h>

#include <fstream>
#include <numeric>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/data/test_folder_test.h"

namespace cohort::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kBoth = {Storage::kMemory, Storage::kStream};

class ImageFilesTest : public DataTest {
 protected:
  // `count` images of 2 x 3 that count up, labels 0, 1, 2 ...
  void write_mnist(std::uint32_t count, bool packed) const {
    Bytes pixels(std::size_t{count} * 6), labels(count);
    std::iota(pixels.begin(), pixels.end(), std::uint8_t{0});
    std::iota(labels.begin(), labels.end(), std::uint8_t{0});
    const Bytes images = idx_bytes({count, 2, 3}, pixels), numbers = idx_bytes({count}, labels);
    const std::string end = packed ? ".gz" : "";
    write("train-images-idx3-ubyte" + end, packed ? gzip(images) : images);
    write("train-labels-idx1-ubyte" + end, packed ? gzip(numbers) : numbers);
  }
  std::string mnist_complaint(Storage storage) const {
    return message_of<InvalidInput>([&] { open_mnist(folder_, Split::kTrain, storage, "mnist"); });
  }
  // A batch file of `size` bytes; record i has label i % 10, first pixel `first`, last pixel i, for
  // a few i. The rest are zeros that take no room on the disk.
  void write_cifar(const std::string& name, std::uint8_t first,
                   std::int64_t size = 30'730'000) const {
    std::ofstream file(folder_ / name, std::ios::binary);
    for (const std::int64_t i : {0, 1, 9'999}) {
      file.seekp(i * 3073);
      file.put(static_cast<char>(i % 10)).put(static_cast<char>(first));
      file.seekp(i * 3073 + 3072);
      file.put(static_cast<char>(i));
    }
    file.close();
    fs::resize_file(folder_ / name, static_cast<std::uintmax_t>(size));
  }
};

TEST_F(ImageFilesTest, MemoryAndStreamGiveTheSameImages) {
  for (const bool packed : {false, true})
    for (const Storage storage : kBoth) {
      for (const auto& old : fs::directory_iterator(folder_)) fs::remove(old);
      write_mnist(4, packed);
      const auto images = open_mnist(folder_, Split::kTrain, storage, "mnist");
      EXPECT_EQ(images->size(), 4);
      EXPECT_EQ(images->shape(), (ImageShape{1, 2, 3}));
      const std::vector<std::int64_t> indices{3, 0, 3};
      Bytes pixels(18);
      std::vector<std::int64_t> labels(3);
      images->read(indices, pixels.data(), labels.data());
      EXPECT_THAT(labels, ElementsAre(3, 0, 3));
      EXPECT_EQ(pixels, (Bytes{18, 19, 20, 21, 22, 23, 0, 1, 2, 3, 4, 5, 18, 19, 20, 21, 22, 23}));
      const std::vector<std::int64_t> outside{4};
      EXPECT_THROW(images->read(outside, pixels.data(), labels.data()), InvalidInput);
    }
}

TEST_F(ImageFilesTest, SaysHowToGetMnist) {
  for (const Storage storage : kBoth)
    EXPECT_THAT(mnist_complaint(storage),
                AllOf(HasSubstr("train-labels-idx1-ubyte': there is no such file"),
                      HasSubstr("scripts/get-data mnist " + folder_.string())));
}

TEST_F(ImageFilesTest, RefusesImagesAndLabelsThatDoNotBelongTogether) {
  for (const Storage storage : kBoth) {
    write_mnist(4, false);
    write("train-labels-idx1-ubyte", idx_bytes({3}, {0, 1, 2}));
    EXPECT_THAT(mnist_complaint(storage),
                AllOf(HasSubstr("holds 3 labels"), HasSubstr("holds 4 images")));
    write("train-labels-idx1-ubyte", idx_bytes({4}, {0, 1, 10, 2}));
    EXPECT_THAT(mnist_complaint(storage), HasSubstr("label 2 is 10, expected 0 to 9"));
    write("train-labels-idx1-ubyte", idx_bytes({4, 1, 1}, {0, 1, 1, 2}));
    EXPECT_THAT(mnist_complaint(storage), HasSubstr("expected 0x00000801"));
  }
}

TEST_F(ImageFilesTest, RefusesImageFilesOfTheWrongLength) {
  for (const Storage storage : kBoth)
    for (const bool packed : {false, true}) {
      const std::string name = std::string("train-images-idx3-ubyte") + (packed ? ".gz" : "");
      for (const auto& old : fs::directory_iterator(folder_)) fs::remove(old);
      write_mnist(4, packed);
      const Bytes too_long = idx_bytes({4, 2, 3}, Bytes(25)),
                  too_short = idx_bytes({4, 2, 3}, Bytes(23));
      write(name, packed ? gzip(too_long) : too_long);
      EXPECT_THAT(mnist_complaint(storage), HasSubstr(name));
      write(name, packed ? gzip(too_short) : too_short);
      EXPECT_THAT(mnist_complaint(storage), HasSubstr(name));
      write(name, packed ? gzip(idx_bytes({4}, Bytes(4))) : idx_bytes({4}, Bytes(4)));
      EXPECT_THAT(mnist_complaint(storage), HasSubstr("expected 0x00000803"));
    }
}

TEST_F(ImageFilesTest, ReadsCifarFromTheFolderOrItsParent) {
  fs::create_directory(folder_ / "cifar-10-batches-bin");
  for (std::uint8_t i = 1; i <= 5; ++i)
    write_cifar(fmt::format("cifar-10-batches-bin/data_batch_{}.bin", i), i);
  for (const fs::path& place : {folder_, folder_ / "cifar-10-batches-bin/"})
    for (const Storage storage : kBoth) {
      const auto images = open_cifar10(place, Split::kTrain, storage);
      EXPECT_EQ(images->size(), 50'000);
      EXPECT_EQ(images->shape(), (ImageShape{3, 32, 32}));
      const std::vector<std::int64_t> indices{0, 49'999, 10'001};
      Bytes pixels(3 * 3072);
      std::vector<std::int64_t> labels(3);
      images->read(indices, pixels.data(), labels.data());
      EXPECT_THAT(labels, ElementsAre(0, 9, 1));
      EXPECT_EQ(pixels[0], 1);
      EXPECT_EQ(pixels[3072], 5);
      EXPECT_EQ(pixels[2 * 3072 - 1], 9'999 % 256);
      EXPECT_EQ(pixels[2 * 3072], 2);
      EXPECT_EQ(pixels[3 * 3072 - 1], 1);
    }
  for (const Storage storage : kBoth)
    EXPECT_THAT(message_of<InvalidInput>([&] {
                  open_cifar10(folder_ / "cifar-10-batches-bin/", Split::kTest, storage);
                }),
                AllOf(HasSubstr("test_batch.bin': there is no such file"),
                      ::testing::EndsWith("scripts/get-data cifar10 " + folder_.string())));
}

TEST_F(ImageFilesTest, RefusesDamagedCifar) {
  const auto complaint = [&](Storage storage) {
    return message_of<InvalidInput>([&] {
      const auto images = open_cifar10(folder_, Split::kTest, storage);
      Bytes pixels(3072);
      std::int64_t label;
      const std::vector<std::int64_t> last{9'999};
      images->read(last, pixels.data(), &label);
    });
  };
  for (const Storage storage : kBoth) {
    write_cifar("test_batch.bin", 1);
    std::fstream(folder_ / "test_batch.bin", std::ios::in | std::ios::out | std::ios::binary)
        .seekp(9'999 * 3073)
        .put(10);
    EXPECT_THAT(complaint(storage), AllOf(HasSubstr("9999"), HasSubstr("expected 0 to 9")));
    write_cifar("test_batch.bin", 1, 30'729'999);
    EXPECT_THAT(complaint(storage), HasSubstr("test_batch.bin"));
    write_cifar("test_batch.bin", 1, 30'730'001);
    EXPECT_THAT(complaint(storage), HasSubstr("test_batch.bin"));
  }
}

TEST_F(ImageFilesTest, ImagesOfAnotherSizeAreNamed) {
  write_mnist(4, false);
  const auto images = open_mnist(folder_, Split::kTrain, Storage::kMemory, "mnist");
  expect_shape(*images, {1, 2, 3}, "mnist", folder_);
  EXPECT_THAT(message_of<InvalidInput>([&] {
                expect_shape(*images, {1, 28, 28}, "mnist", folder_);
              }),
              AllOf(HasSubstr(folder_.string()),
                    HasSubstr("have 2 x 3 pixels, but those of mnist have 28 x 28"),
                    HasSubstr("scripts/get-data mnist")));
}

TEST_F(ImageFilesTest, StreamNoticesAFileThatShrinks) {
  write_mnist(4, false);
  const auto images = open_mnist(folder_, Split::kTrain, Storage::kStream, "mnist");
  fs::resize_file(folder_ / "train-images-idx3-ubyte", 30);
  Bytes pixels(6);
  std::int64_t label;
  const std::vector<std::int64_t> last{3};
  EXPECT_THAT(message_of<InvalidInput>([&] { images->read(last, pixels.data(), &label); }),
              HasSubstr("ends inside image 3"));
}

TEST_F(ImageFilesTest, FindsTheFolderOrSaysWhichCommandMakesIt) {
  EXPECT_EQ(data_folder("mnist", folder_.string()), folder_);
  EXPECT_THAT(message_of<InvalidInput>([] { data_folder("cifar10", ""); }),
              HasSubstr("scripts/get-data cifar10 DIR, then give --data_dir DIR"));
  EXPECT_THAT(
      message_of<InvalidInput>([] { data_folder("cifar10", "gone/cifar-10-batches-bin/"); }),
      HasSubstr("scripts/get-data cifar10 gone"));
  EXPECT_THAT(message_of<InvalidInput>([] { data_folder("imagenet", ""); }),
              HasSubstr("no data set 'imagenet'"));
}

TEST(FashionMnist, OfTheDistributionIsReadWhole) {
  if (!fs::exists("/usr/share/datasets/fashion-mnist")) GTEST_SKIP() << "dataset-fashion-mnist";
  const fs::path folder = data_folder("fashion-mnist", "");
  for (const Split split : {Split::kTrain, Split::kTest}) {
    const auto images = open_mnist(folder, split, Storage::kMemory, "fashion-mnist");
    ASSERT_EQ(images->size(), split == Split::kTrain ? 60'000 : 10'000);
    ASSERT_EQ(images->shape(), (ImageShape{1, 28, 28}));
    const auto count = static_cast<std::size_t>(images->size());
    std::vector<std::int64_t> indices(count), labels(count);
    std::iota(indices.begin(), indices.end(), 0);
    Bytes pixels(count * 784);
    images->read(indices, pixels.data(), labels.data());
    if (split == Split::kTest) {
      const auto streamed = open_mnist(folder, split, Storage::kStream, "fashion-mnist");
      ASSERT_EQ(streamed->size(), images->size());
      std::vector<std::int64_t> streamed_labels(count);
      Bytes streamed_pixels(count * 784);
      streamed->read(indices, streamed_pixels.data(), streamed_labels.data());
      EXPECT_EQ(pixels, streamed_pixels);
      EXPECT_EQ(labels, streamed_labels);
    }
    std::vector<std::size_t> counts(10);
    for (const std::int64_t label : labels) ++counts[static_cast<std::size_t>(label)];
    EXPECT_THAT(counts, ::testing::Each(count / 10));
  }
}

}  // namespace
}  // namespace cohort::train

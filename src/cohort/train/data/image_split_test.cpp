#include "cohort/train/data/image_split.h"

#include <gmock/gmock.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/data/batch_maker.h"
#include "cohort/train/data/image_dataset.h"
#include "cohort/train/data/transforms.h"

namespace cohort::train {
namespace {

using ::testing::HasSubstr;
constexpr std::int64_t kSamples = 24;
constexpr std::int64_t kAnySize = std::int64_t{1} << 30;

// Images of `channels` x 8 x 6 of all values, also 0.
DatasetPtr stored_images(std::int64_t channels = 3) {
  const ImageShape shape{channels, 8, 6};
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(kSamples * shape.bytes())),
      labels(kSamples);
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<std::uint8_t>(i * 37 % 256);
  std::iota(labels.begin(), labels.end(), std::uint8_t{100});
  return std::make_shared<ImageDataset>(
      std::make_shared<MemoryImages>(shape, std::move(pixels), std::move(labels)));
}

DatasetPtr with(std::vector<Transform> transforms, std::int64_t channels = 3) {
  return std::make_shared<Transformed>(stored_images(channels), std::move(transforms));
}

const Normalise kNormalise{{0.49f, 0.48f, 0.45f}, {0.25f, 0.24f, 0.26f}};

// By load(), and by both halves, here both on the CPU.
void expect_same(const DatasetPtr& source, const std::string& what) {
  const std::vector<std::int64_t> some{5, 0, 23, 5, 11};
  for (const std::int64_t cache : {std::int64_t{0}, kAnySize})
    for (const bool channels_last : {false, true}) {
      SCOPED_TRACE(what + (cache > 0 ? ", kept" : "") + (channels_last ? ", channels last" : ""));
      ASSERT_NE(source->split({.cache_bytes = cache}), nullptr);
      const BatchMaker maker(source, {.channels_last = channels_last, .cache_bytes = cache});
      for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
        const DrawKey key{.seed = 7, .epoch = epoch};
        const AnyBatch expected = source->load(some, key), made = maker.make(some, key).take();
        ASSERT_TRUE(torch::equal(made.as<Batch>().data, expected.as<Batch>().data));
        ASSERT_TRUE(torch::equal(made.as<Batch>().target, expected.as<Batch>().target));
        ASSERT_EQ(made.as<Batch>().data.scalar_type(), torch::kFloat32);
        ASSERT_EQ(made.as<Batch>().target.scalar_type(), torch::kInt64);
        const auto format =
            channels_last ? torch::MemoryFormat::ChannelsLast : torch::MemoryFormat::Contiguous;
        ASSERT_TRUE(made.as<Batch>().data.is_contiguous(format));
      }
      const AnyBatch none = maker.make({}, {}).take();
      EXPECT_EQ(none.as<Batch>().data.sizes(), source->load({}, {}).as<Batch>().data.sizes());
      EXPECT_THAT(
          message_of<InvalidInput>([&] { maker.make(std::vector<std::int64_t>{kSamples}, {}); }),
          HasSubstr("sample 24 was asked for"));
    }
}

TEST(ImageSplit, BothHalvesGiveTheBitsOfLoad) {
  expect_same(stored_images(), "images");
  expect_same(stored_images(1), "gray images");
  expect_same(with({kNormalise}), "normalise");
  expect_same(with({Normalise{{0.3f}, {0.7f}}}, 1), "normalise gray");
  expect_same(with({RandomCrop{.padding = 2}, HorizontalFlip{}, kNormalise}), "as for CIFAR");
  expect_same(with({HorizontalFlip{}, RandomCrop{.padding = 9}}), "mostly padding");
  expect_same(with({RandomCrop{.height = 3, .width = 4}, kNormalise}), "windows");
  expect_same(with({RandomCrop{.padding = 3, .height = 10, .width = 2}}), "high windows");
}

TEST(ImageSplit, PaddingAfterNormaliseIsZeroAsInLoad) {
  expect_same(with({kNormalise, RandomCrop{.padding = 4}, HorizontalFlip{}}), "crop at the end");
}

TEST(ImageSplit, SubsetsKeepTheAugmentationOfTheWhole) {
  class Renamed final : public Dataset {  // samples in another order, by the whole's own split
   public:
    explicit Renamed(DatasetPtr whole) : subset_(std::move(whole), order()) {}
    std::int64_t size() const override { return subset_.size(); }
    Batch get(std::span<const std::int64_t> indices, const DrawKey& key) const override {
      return subset_.get(indices, key);
    }
    std::unique_ptr<const SplitLoad> split(const SplitOptions& options) const override {
      return subset_.split(options);
    }

   private:
    static std::vector<std::int64_t> order() {
      std::vector<std::int64_t> order(kSamples);
      for (std::int64_t i = 0; i < kSamples; ++i)
        order[static_cast<std::size_t>(i)] = kSamples - 1 - i;
      return order;
    }
    Subset subset_;
  };
  const std::vector<Transform> augment{RandomCrop{.padding = 2}, HorizontalFlip{}, kNormalise};
  expect_same(std::make_shared<Renamed>(with(augment)), "a part of what is augmented");
  // It does not say what it stores.
  EXPECT_EQ(Transformed(std::make_shared<Renamed>(stored_images()), augment).split({}), nullptr);
}

TEST(ImageSplit, ASubsetIsKeptByItself) {
  const auto part = std::make_shared<Subset>(stored_images(), std::vector<std::int64_t>{9, 3, 20});
  const std::int64_t bytes = 3 * 3 * 8 * 6;
  ASSERT_TRUE(part->raw_images(bytes)->pixels.defined());
  EXPECT_EQ(part->raw_images(bytes)->pixels.size(0), 3);
  EXPECT_FALSE(part->raw_images(bytes - 1)->pixels.defined());
  const Transformed augmented(part, {RandomCrop{.padding = 1}, kNormalise});
  const BatchMaker maker(SourcePtr(SourcePtr(), &augmented), {.cache_bytes = bytes});
  const std::vector<std::int64_t> all{2, 0, 1};
  const AnyBatch made = maker.make(all, {.seed = 3}).take();
  EXPECT_TRUE(torch::equal(made.as<Batch>().data, augmented.get(all, {.seed = 3}).data));
  EXPECT_TRUE(torch::equal(made.as<Batch>().target, torch::tensor({120, 109, 103})));
}

TEST(ImageSplit, WhatIsNotImagesAloneIsTheHostsAlone) {
  const auto own = [](Batch batch, std::span<const std::int64_t>, const DrawKey&) { return batch; };
  EXPECT_EQ(with({MapBatch{own}, kNormalise})->split({}), nullptr);
  EXPECT_EQ(with({kNormalise, MapBatch{own}})->split({}), nullptr);
  EXPECT_EQ(with({})->split({}), nullptr);
  const auto floats = std::make_shared<TensorDataset>(torch::rand({4, 3, 8, 6}), torch::arange(4));
  EXPECT_EQ(Transformed(floats, {kNormalise}).split({}), nullptr);
}

}  // namespace
}  // namespace cohort::train

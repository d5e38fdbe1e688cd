#include "cohort/train/data/transforms.h"

#include <gmock/gmock.h>

#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/data/image_dataset.h"

namespace cohort::train {
namespace {

using ::testing::HasSubstr;
using Indices = std::vector<std::int64_t>;
namespace F = torch::nn::functional;

// 20 images of 3 x 8 x 6, all pixels different from their neighbours, none 0.
DatasetPtr images() {
  const ImageShape shape{3, 8, 6};
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(20 * shape.bytes())), labels(20);
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<std::uint8_t>(1 + i % 251);
  std::iota(labels.begin(), labels.end(), std::uint8_t{0});
  return std::make_shared<ImageDataset>(
      std::make_shared<MemoryImages>(shape, std::move(pixels), std::move(labels)));
}

Indices all() {
  Indices indices(20);
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  return indices;
}

TEST(Transformed, NormaliseIsWhatTensorArithmeticGives) {
  const auto plain = images()->get(all(), {});
  EXPECT_EQ(plain.data.scalar_type(), torch::kFloat32);
  const Transformed dataset(images(), {Normalise{{0.5f, 0.25f, 0.1f}, {0.2f, 0.3f, 0.4f}}});
  const auto mean = torch::tensor({0.5f, 0.25f, 0.1f}).view({1, 3, 1, 1});
  const auto std = torch::tensor({0.2f, 0.3f, 0.4f}).view({1, 3, 1, 1});
  const Batch batch = dataset.get(all(), {});
  EXPECT_TRUE(torch::equal(batch.data, (plain.data - mean) / std));
  EXPECT_TRUE(torch::equal(batch.target, torch::arange(20)));
  const Transformed for_all(images(), {Normalise{{0.5f}, {0.2f}}});
  EXPECT_TRUE(torch::equal(for_all.get(all(), {}).data, (plain.data - 0.5f) / 0.2f));
}

TEST(Transformed, EveryCropIsAWindowOfThePaddedImageAndAllOccur) {
  const auto plain = images()->get(all(), {}).data;
  const auto padded = F::pad(plain, F::PadFuncOptions({2, 2, 2, 2}));
  const Transformed dataset(images(), {RandomCrop{.padding = 2}});
  std::set<int> windows;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    const auto batch = dataset.get(all(), {.seed = 1, .epoch = epoch}).data;
    ASSERT_EQ(batch.sizes(), plain.sizes());
    for (std::int64_t i = 0; i < 20; ++i) {
      int found = 0;
      for (int y = 0; y < 5; ++y)
        for (int x = 0; x < 5; ++x)
          if (torch::equal(padded[i].slice(1, y, y + 8).slice(2, x, x + 6), batch[i])) {
            ++found;
            windows.insert(5 * y + x);
          }
      ASSERT_EQ(found, 1) << "epoch " << epoch << " image " << i;
    }
  }
  EXPECT_EQ(windows.size(), 25u);
}

TEST(Transformed, FlipsHalfOfThemLeftToRight) {
  const auto plain = images()->get(all(), {}).data;
  const Transformed dataset(images(), {HorizontalFlip{}});
  int flipped = 0;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    const auto batch = dataset.get(all(), {.seed = 1, .epoch = epoch}).data;
    for (std::int64_t i = 0; i < 20; ++i) {
      const bool is_flipped = torch::equal(batch[i], plain[i].flip({2}));
      ASSERT_TRUE(is_flipped || torch::equal(batch[i], plain[i]));
      flipped += is_flipped ? 1 : 0;
    }
  }
  EXPECT_NEAR(flipped, 200, 50);  // 5 sigma
  EXPECT_TRUE(torch::equal(Transformed(images(), {HorizontalFlip{1.0}}).get(all(), {}).data,
                           plain.flip({3})));
}

TEST(Transformed, ASampleIsTheSameInWhateverBatchAndChangesWithSeedAndEpoch) {
  const Transformed dataset(
      images(), {RandomCrop{.padding = 3}, HorizontalFlip{}, Normalise{{0.5f}, {0.5f}}});
  const auto together = dataset.get(all(), {.seed = 3, .epoch = 1}).data;
  for (const std::int64_t index : {0, 7, 19}) {
    EXPECT_TRUE(torch::equal(dataset.get(Indices{index}, {.seed = 3, .epoch = 1}).data[0],
                             together[index]));
    EXPECT_TRUE(torch::equal(dataset.get(Indices{1, index, 2}, {.seed = 3, .epoch = 1}).data[1],
                             together[index]));
  }
  EXPECT_FALSE(torch::equal(dataset.get(all(), {.seed = 3, .epoch = 2}).data, together));
  EXPECT_FALSE(torch::equal(dataset.get(all(), {.seed = 4, .epoch = 1}).data, together));
  const auto subset = std::make_shared<Subset>(std::make_shared<Transformed>(dataset), Indices{7});
  EXPECT_TRUE(torch::equal(subset->get(Indices{0}, {.seed = 3, .epoch = 1}).data[0], together[7]));
}

TEST(Transformed, PaddingIsBlackBeforeNormaliseAndZeroAfter) {
  const auto corner_values = [](std::vector<Transform> transforms) {
    std::set<float> values;
    const Transformed dataset(images(), std::move(transforms));
    const auto data = dataset.get(all(), {.seed = 1}).data;
    for (std::int64_t i = 0; i < 20; ++i) values.insert(data[i][0][0][0].item<float>());
    return values;
  };
  const Normalise normalise{{0.5f}, {0.25f}};
  const RandomCrop crop{.padding = 20};
  EXPECT_TRUE(corner_values({crop, normalise}).count(-2.0f));
  EXPECT_FALSE(corner_values({crop, normalise}).count(0.0f));
  EXPECT_TRUE(corner_values({normalise, crop}).count(0.0f));
  EXPECT_FALSE(corner_values({normalise, crop}).count(-2.0f));
}

TEST(Transformed, FloatsGiveTheSameBitsAsPixels) {
  const std::vector<Transform> transforms{RandomCrop{.padding = 2, .height = 5, .width = 4},
                                          HorizontalFlip{},
                                          Normalise{{0.4f, 0.5f, 0.6f}, {0.2f, 0.3f, 0.1f}}};
  const auto floats = images()->get(all(), {});
  const auto in_memory = std::make_shared<TensorDataset>(floats.data, floats.target);
  const DrawKey key{.seed = 9, .epoch = 4};
  const auto from_pixels = Transformed(images(), transforms).get(all(), key).data;
  EXPECT_EQ(from_pixels.sizes(), torch::IntArrayRef({20, 3, 5, 4}));
  EXPECT_TRUE(torch::equal(from_pixels, Transformed(in_memory, transforms).get(all(), key).data));
}

TEST(Transformed, OwnTransformsStandBetweenTheOthers) {
  const auto halve = [](Batch batch, std::span<const std::int64_t>, const DrawKey&) {
    EXPECT_EQ(batch.data.scalar_type(), torch::kFloat32);
    batch.data = batch.data / 2;
    return batch;
  };
  const auto plain = images()->get(all(), {}).data;
  const Transformed first(images(), {MapBatch{halve}, HorizontalFlip{1.0}});
  EXPECT_TRUE(torch::equal(first.get(all(), {}).data, (plain / 2).flip({3})));
  const Transformed last(images(), {HorizontalFlip{1.0}, MapBatch{halve}});
  EXPECT_TRUE(torch::equal(last.get(all(), {}).data, plain.flip({3}) / 2));
  EXPECT_TRUE(torch::equal(Transformed(images(), {}).get(all(), {}).data, plain));
}

TEST(Transformed, AnEmptyBatchHasTheShapeOfItsSamples) {
  const Transformed dataset(images(), {RandomCrop{.padding = 1, .height = 4, .width = 3}});
  EXPECT_EQ(dataset.get(Indices{}, {}).data.sizes(), torch::IntArrayRef({0, 3, 4, 3}));
}

TEST(Transformed, RefusesWhatCannotBe) {
  const auto refuse = [](std::vector<Transform> transforms) {
    return message_of<InvalidInput>(
        [&] { Transformed(images(), std::move(transforms)).get(all(), {}); });
  };
  EXPECT_THAT(refuse({Normalise{{0.5f}, {0.0f}}}), HasSubstr("std must be positive, got 0"));
  EXPECT_THAT(refuse({Normalise{{0.5f, 0.5f}, {0.5f, 0.5f}}}),
              HasSubstr("2 channels, the images 3"));
  EXPECT_THAT(refuse({Normalise{{0.5f}, {}}}), HasSubstr("one value a channel, got 1 and 0"));
  EXPECT_THAT(refuse({HorizontalFlip{1.5}}), HasSubstr("probability must be 0 to 1, got 1.5"));
  EXPECT_THAT(refuse({RandomCrop{.padding = 1, .height = 11}}),
              HasSubstr("cut 11 pixels out of 8"));
  EXPECT_THAT(refuse({RandomCrop{.padding = -1}}),
              HasSubstr("sizes must be 0 or more, got padding -1"));
  EXPECT_THAT(refuse({RandomCrop{}, Normalise{{0.f}, {1.f}}, RandomCrop{}}),
              HasSubstr("both sides"));
  EXPECT_THAT(refuse({MapBatch{}}), HasSubstr("apply must be a function"));
  const auto vectors = std::make_shared<TensorDataset>(torch::zeros({2, 3}), torch::zeros({2}));
  EXPECT_THAT(message_of<InvalidInput>(
                  [&] { Transformed(vectors, {HorizontalFlip{}}).get(Indices{0}, {}); }),
              HasSubstr("2 dimensions of Float"));
}

}  // namespace
}  // namespace cohort::train

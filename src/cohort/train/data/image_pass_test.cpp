#include "cohort/train/data/image_pass.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "cohort/base/data/counter_random.h"

namespace cohort::train {
namespace {

// An axis done one operation after another, padding as nothing.
using Line = std::vector<std::optional<std::int64_t>>;

Line cropped(const Line& line, std::int64_t offset, std::int64_t size) {
  Line result;
  for (std::int64_t x = offset; x < offset + size; ++x)
    result.push_back(x >= 0 && x < static_cast<std::int64_t>(line.size())
                         ? line[static_cast<std::size_t>(x)]
                         : std::nullopt);
  return result;
}

TEST(AxisMap, ComposesAsOperationsDoneOneAfterAnother) {
  CounterRandom random(1, RandomStream::kUser);
  for (int round = 0; round < 2000; ++round) {
    const auto size = static_cast<std::int64_t>(1 + random.below(6));
    AxisMap map(size);
    Line expected;
    for (std::int64_t x = 0; x < size; ++x) expected.push_back(x);
    for (std::uint64_t operations = random.below(5); operations > 0; --operations) {
      if (random.below(2) == 0) {
        map.flip();
        expected = Line(expected.rbegin(), expected.rend());
      } else {
        const auto offset = static_cast<std::int64_t>(random.below(13)) - 6;
        const auto new_size = static_cast<std::int64_t>(1 + random.below(8));
        map.crop(offset, new_size);
        expected = cropped(expected, offset, new_size);
      }
    }
    ASSERT_EQ(map.size, static_cast<std::int64_t>(expected.size()));
    for (std::int64_t x = 0; x < map.size; ++x) {
      std::optional<std::int64_t> source;
      if (x >= map.first && x < map.last) source = map.origin + map.step * x;
      ASSERT_EQ(source, expected[static_cast<std::size_t>(x)]) << "round " << round << " x " << x;
    }
  }
}

TEST(ImagePass, CropsFlipsPadsAndScalesEachChannel) {
  const std::vector<std::uint8_t> in{0,   51,  102, 153, 204, 255,  // channel 0, 2 x 3
                                     255, 204, 153, 102, 51,  0};   // channel 1
  AxisMap rows(2), columns(3);
  rows.crop(1, 2);      // the second row, then padding
  columns.crop(-1, 3);  // padding, then the first two columns
  columns.flip();
  const PixelScale scale({0.0f, 1.0f}, {1.0f, 0.5f}, false);
  std::vector<float> out(12, -7);
  pass_image(in.data(), {2, 2, 3}, rows, columns, scale, out.data());
  const std::vector<float> expected{0.8f, 0.6f, 0, 0, 0, 0, -1.6f, -1.2f, -2, -2, -2, -2};
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_FLOAT_EQ(out[i], expected[i]) << i;

  const PixelScale after({0.0f, 1.0f}, {1.0f, 0.5f}, true);
  pass_image(in.data(), {2, 2, 3}, rows, columns, after, out.data());
  EXPECT_EQ(out[11], 0);
}

TEST(ImagePass, FloatsAndPixelsGiveTheSameBits) {
  std::vector<std::uint8_t> pixels(256);
  std::vector<float> floats(256), from_pixels(256), from_floats(256);
  for (std::size_t i = 0; i < 256; ++i) {
    pixels[i] = static_cast<std::uint8_t>(i);
    floats[i] = static_cast<float>(i) / 255.0f;
  }
  const PixelScale scale({0.2860f}, {0.3530f}, false);
  pass_image(pixels.data(), {1, 16, 16}, AxisMap(16), AxisMap(16), scale, from_pixels.data());
  pass_image(floats.data(), {1, 16, 16}, AxisMap(16), AxisMap(16), scale, from_floats.data());
  EXPECT_EQ(from_pixels, from_floats);
}

}  // namespace
}  // namespace cohort::train

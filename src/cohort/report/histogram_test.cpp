#include "cohort/report/histogram.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string_view>

#include "cohort/base/data/byte_io.h"

namespace cohort::report {
namespace {

// What a reader of HistogramProto gets, fields in the order in which they are written.
struct Decoded {
  double min, max, count, sum, sum_of_squares;
  std::vector<double> limits, counts;
};

Decoded decode(const Histogram& histogram) {
  std::string bytes = histogram.encode().bytes();
  const char* at = bytes.data();
  auto number = [&] {
    double value;
    std::memcpy(&value, at, sizeof value);
    at += sizeof value;
    return value;
  };
  auto field = [&] { return ++at, number(); };
  auto packed = [&] {
    ++at;
    std::size_t size = 0;
    for (int shift = 0;; shift += 7) {
      auto byte = static_cast<unsigned char>(*at++);
      size |= static_cast<std::size_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    std::vector<double> values(size / sizeof(double));
    for (auto& value : values) value = number();
    return values;
  };
  Decoded decoded{};
  for (auto* target :
       {&decoded.min, &decoded.max, &decoded.count, &decoded.sum, &decoded.sum_of_squares})
    *target = field();
  decoded.limits = packed();
  decoded.counts = packed();
  EXPECT_EQ(at, bytes.data() + bytes.size());
  return decoded;
}

// How many values the buckets count between `low` and `high`, which must not cut a bucket.
double counted(const Decoded& decoded, double low, double high) {
  double total = 0;
  for (std::size_t i = 0; i < decoded.limits.size(); ++i)
    if (decoded.limits[i] > low && decoded.limits[i] <= high) total += decoded.counts[i];
  return total;
}

TEST(Histogram, CountsEveryValueOnceInABucketThatHoldsIt) {
  Histogram histogram;
  histogram.add(std::vector<float>{-2.0f, -1e-20f, 0.0f, 0.5f, 0.5f, 3.0f});
  auto decoded = decode(histogram);
  EXPECT_EQ(decoded.min, -2.0);
  EXPECT_EQ(decoded.max, 3.0);
  EXPECT_EQ(decoded.count, 6);
  EXPECT_FLOAT_EQ(decoded.sum, 2.0);
  EXPECT_FLOAT_EQ(decoded.sum_of_squares, 13.5);
  ASSERT_EQ(decoded.limits.size(), decoded.counts.size());
  EXPECT_TRUE(std::is_sorted(decoded.limits.begin(), decoded.limits.end()));
  EXPECT_EQ(counted(decoded, -2.2, -1.7), 1);
  EXPECT_EQ(counted(decoded, -1e-12, 0), 1);
  EXPECT_EQ(counted(decoded, 0, 1e-12), 1);
  EXPECT_EQ(counted(decoded, 0.45, 0.56), 2);
  EXPECT_EQ(counted(decoded, 2.7, 3.4), 1);
}

TEST(Histogram, ARunOfEmptyBucketsIsOneBucketAndTheEndsAreNotEmpty) {
  Histogram histogram;
  histogram.add(std::vector<double>{1.0, 1000.0, 1000.0});
  EXPECT_EQ(decode(histogram).counts, (std::vector<double>{1, 0, 2}));
}

TEST(Histogram, ValuesThatAreNotFiniteAreCountedApart) {
  using Limits = std::numeric_limits<double>;
  Histogram histogram;
  histogram.add(std::vector<double>{Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(),
                                    Limits::max(), Limits::lowest(), 1.0});
  EXPECT_EQ(histogram.count(), 3u);
  EXPECT_EQ(histogram.non_finite(), 3u);
  auto decoded = decode(histogram);
  EXPECT_EQ(counted(decoded, -Limits::infinity(), Limits::infinity()), 3);
  EXPECT_EQ(decoded.min, Limits::lowest());
}

TEST(Histogram, NoValuesAreAHistogramOfNothing) {
  auto decoded = decode(Histogram());
  EXPECT_EQ(decoded.count, 0);
  EXPECT_EQ(decoded.min, 0);
  EXPECT_EQ(decoded.max, 0);
  EXPECT_TRUE(decoded.limits.empty());
}

}  // namespace
}  // namespace cohort::report

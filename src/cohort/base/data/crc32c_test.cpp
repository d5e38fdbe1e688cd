#include "cohort/base/data/crc32c.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string_view>
#include <vector>

namespace cohort {
namespace {

TEST(Crc32c, HasTheKnownValues) {  // RFC 3720, B.4
  constexpr std::string_view kDigits = "123456789";
  EXPECT_EQ(crc32c(kDigits.data(), kDigits.size()), 0xe3069283u);
  EXPECT_EQ(crc32c_plain(kDigits.data(), kDigits.size()), 0xe3069283u);
  const std::vector<unsigned char> zeros(32, 0), ones(32, 0xff);
  EXPECT_EQ(crc32c(zeros.data(), 32), 0x8a9136aau);
  EXPECT_EQ(crc32c(ones.data(), 32), 0x62a8ab43u);
  EXPECT_EQ(crc32c(nullptr, 0), 0u);
}

TEST(Crc32c, AllWaysAgreeAtEverySizeAndSplit) {
  std::vector<unsigned char> data(3 * 2048 * 2 + 100);
  unsigned state = 1;
  for (auto& byte : data) byte = static_cast<unsigned char>((state = state * 1664525 + 1) >> 24);
  for (const std::size_t size :
       {0, 1, 7, 8, 9, 511, 512, 513, 767, 768, 777, 1024, 6143, 6144, 6145, 12288, 12388})
    for (const std::size_t offset : {0, 1}) {
      const std::size_t n = std::min<std::size_t>(size, data.size() - offset);
      const auto whole = crc32c(data.data() + offset, n);
      EXPECT_EQ(whole, crc32c_plain(data.data() + offset, n)) << n;
      EXPECT_EQ(whole, crc32c_narrow(data.data() + offset, n)) << n;
      EXPECT_EQ(whole, crc32c(data.data() + offset + n / 3, n - n / 3,
                              crc32c(data.data() + offset, n / 3)));
    }
}

TEST(Crc32c, SeesASingleFlippedBit) {
  std::vector<unsigned char> data(20'000, 7);
  const auto before = crc32c(data.data(), data.size());
  data[13'001] ^= 0x10;
  EXPECT_NE(crc32c(data.data(), data.size()), before);
}

}  // namespace
}  // namespace cohort

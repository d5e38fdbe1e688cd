#include "cohort/report/proto.h"

#include <gtest/gtest.h>

#include <array>

namespace cohort::report {
namespace {

using namespace std::string_literals;

TEST(Proto, IntegersAreVarintsOfSevenBits) {
  EXPECT_EQ(Proto().integer(1, 0).bytes(), "\x08\x00"s);
  EXPECT_EQ(Proto().integer(1, 150).bytes(), "\x08\x96\x01"s);
  EXPECT_EQ(Proto().integer(2, static_cast<std::uint64_t>(-1)).bytes(),
            "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s);
}

TEST(Proto, NumbersAreLittleEndian) {
  EXPECT_EQ(Proto().number(1, 1.0).bytes(), "\x09\x00\x00\x00\x00\x00\x00\xf0\x3f"s);
  EXPECT_EQ(Proto().number(2, 1.0f).bytes(), "\x15\x00\x00\x80\x3f"s);
  std::array values{1.0};
  EXPECT_EQ(Proto().numbers(6, values).bytes(), "\x32\x08\x00\x00\x00\x00\x00\x00\xf0\x3f"s);
}

TEST(Proto, TextsAndMessagesCarryTheirLength) {
  EXPECT_EQ(Proto().text(2, "testing").bytes(), "\x12\x07testing"s);
  EXPECT_EQ(Proto().message(3, Proto().integer(1, 150)).bytes(), "\x1a\x03\x08\x96\x01"s);
  EXPECT_EQ(Proto().message(3, {}).bytes(), "\x1a\x00"s);
  EXPECT_EQ(Proto().text(16, std::string(300, 'x')).bytes().substr(0, 4), "\x82\x01\xac\x02"s);
}

}  // namespace
}  // namespace cohort::report

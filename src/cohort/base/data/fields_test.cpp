#include "cohort/base/data/fields.h"

#include <gtest/gtest.h>

#include "cohort/base/data/hex_test.h"

namespace cohort {

// fields() is found through its argument, so these lie in no anonymous namespace.
namespace fields_test {

enum class Colour : std::uint8_t { red = 1, green, blue };

struct Point {
  std::int16_t x = 0, y = 0;
  bool operator==(const Point&) const = default;
};
void fields(auto& io, MessageOf<Point> auto& m) { io(m.x), io(m.y); }

struct Sample {
  bool flag = false;
  Colour colour = Colour::red;
  std::uint32_t number = 0;
  double ratio = 0;
  std::chrono::milliseconds pause{0};
  std::string name;
  std::vector<std::uint16_t> numbers;
  std::vector<Point> points;
  std::array<std::uint8_t, 3> raw{};
  std::uint32_t narrow = 0;
  bool operator==(const Sample&) const = default;
};
void fields(auto& io, MessageOf<Sample> auto& m) {
  io(m.flag), io.choice(m.colour, Colour::red, Colour::blue), io(m.number), io(m.ratio);
  io(m.pause), io.text(m.name, 8), io.list(m.numbers, 4);
  io.list(m.points, 3, 4, [](auto& list, auto& point) { list(point); });
  io.array(m.raw), io.narrow(m.narrow, 3), io.pad(8);
  io.expect(m.number != 13, [] { return "13 is no number"; });
}

struct Empty {
  bool operator==(const Empty&) const = default;
};
using Either = std::variant<Point, Empty>;

}  // namespace fields_test

namespace {

using fields_test::Colour;
using fields_test::Either;
using fields_test::Empty;
using fields_test::Point;
using fields_test::Sample;

const Sample kSample{.flag = true,
                     .colour = Colour::green,
                     .number = 0x01020304,
                     .ratio = -2,
                     .pause = std::chrono::milliseconds(5),
                     .name = "name",
                     .numbers = {6, 7},
                     .points = {{-1, 2}},
                     .raw = {8, 9, 10},
                     .narrow = 0x0b0c0d};

TEST(Fields, AreWrittenInTheirOrderAndReadAgain) {
  const std::string bytes = encode_fields(kSample);
  EXPECT_EQ(to_hex(bytes),
            "01"
            "02"
            "04030201"
            "00000000000000c0"
            "0500000000000000"
            "04000000"
            "6e616d65"
            "02000000"
            "06000700"
            "01000000"
            "ffff0200"
            "08090a"
            "0d0c0b"
            "00000000");
  EXPECT_EQ(decode_fields<Sample>(bytes), kSample);
}

TEST(Fields, EveryCutAndEveryAdditionIsNoticed) {
  const std::string bytes = encode_fields(kSample);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(decode_fields<Sample>(bytes.substr(0, size)), ProtocolError) << size;
  EXPECT_THROW(decode_fields<Sample>(bytes + '\0'), ProtocolError);
}

TEST(Fields, ValuesOutOfRangeAreNoMessage) {
  const auto refused = [](std::size_t at, char value) {
    std::string bytes = encode_fields(kSample);
    bytes[at] = value;
    EXPECT_THROW(decode_fields<Sample>(bytes), ProtocolError) << at;
  };
  refused(0, 2);     // a bool
  refused(1, 0);     // an enum
  refused(1, 4);     // an enum
  refused(22, 9);    // a text's length, over its bound
  refused(30, 5);    // a list's count, over its bound
  refused(41, 127);  // a list's count, of 2 billion: no memory is asked for
  Sample thirteen = kSample;
  thirteen.number = 13;
  EXPECT_THROW(decode_fields<Sample>(encode_fields(thirteen)), ProtocolError);
}

TEST(Fields, WhatTheReaderWouldRefuseIsNotWritten) {
  Sample sample = kSample;
  sample.name = "123456789";
  EXPECT_THROW(encode_fields(sample), InvalidInput);
  sample = kSample;
  sample.numbers.resize(5);
  EXPECT_THROW(encode_fields(sample), InvalidInput);
}

TEST(Fields, OneOfSeveralMessagesIsToldByItsFirstByte) {
  for (const Either& message : {Either(Point{3, 4}), Either(Empty{})}) {
    std::string bytes;
    encode_tagged(message, 5, bytes);
    EXPECT_EQ(to_hex(bytes), message.index() == 0 ? "0503000400" : "06");
    EXPECT_EQ(decode_tagged<Either>(5, bytes), message);
  }
  EXPECT_THROW(decode_tagged<Either>(5, ""), ProtocolError);
  EXPECT_THROW(decode_tagged<Either>(5, "\x04"), ProtocolError);
  EXPECT_THROW(decode_tagged<Either>(5, "\x07"), ProtocolError);
  EXPECT_THROW(decode_tagged<Either>(5, "\x06x"), ProtocolError);
}

}  // namespace
}  // namespace cohort

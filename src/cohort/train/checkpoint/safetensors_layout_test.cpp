#include "cohort/train/checkpoint/safetensors_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/message_of_test.h"

namespace cohort::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal_of(const std::string& header, std::uint64_t data_bytes) {
  return message_of<InvalidInput>([&] { parse_header(header, data_bytes, "x.safetensors"); });
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"w":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

Layout sample() {
  Layout layout{.tensors = {{.name = "b", .dtype = Dtype::boolean, .shape = {3}},
                            {.name = "a.weight", .dtype = Dtype::f32, .shape = {2, 3}},
                            {.name = "steps", .dtype = Dtype::i64, .shape = {}},
                            {.name = "none", .dtype = Dtype::f16, .shape = {0, 7}}},
                .metadata = {{"format", "pt"}, {"quote\"d", "x"}}};
  arrange(layout);
  return layout;
}

TEST(SafetensorsLayout, WhatWasEncodedIsParsed) {
  const Layout layout = sample();
  const std::string bytes = encode_header(layout);
  EXPECT_EQ(bytes.size() % 8, 0u);
  const auto length = parse_header_length(bytes, bytes.size() + 35, "x");
  ASSERT_EQ(length + kLengthBytes, bytes.size());
  const Layout parsed = parse_header(bytes.substr(kLengthBytes), 35, "x");
  EXPECT_EQ(parsed.metadata, layout.metadata);
  ASSERT_EQ(parsed.tensors.size(), 4u);
  for (const auto& entry : parsed.tensors) EXPECT_EQ(entry.begin % size_of(entry.dtype), 0u);
  EXPECT_EQ(parsed.tensors[0].name, "steps");
  EXPECT_EQ(parsed.tensors[1].name, "a.weight");
  EXPECT_EQ(parsed.tensors[1].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(parsed.tensors[3].end, 35u);
}

TEST(SafetensorsLayout, AnEmptyFileOfTensorsIsAllowed) {
  EXPECT_TRUE(parse_header("{}      ", 0, "x").tensors.empty());
}

TEST(SafetensorsLayout, AHeaderLengthIsBoundedBeforeAnythingIsAllocated) {
  auto length_refusal = [](std::uint64_t announced, std::uint64_t file_bytes) {
    std::string bytes(8, '\0');
    put_integer(announced, bytes.data());
    return message_of<InvalidInput>([&] { parse_header_length(bytes, file_bytes, "x.st"); });
  };
  EXPECT_THAT(length_refusal(1'000'000'000'000, 1'000), HasSubstr("announce a header of 1000000"));
  EXPECT_THAT(length_refusal(UINT64_MAX, 1'000), HasSubstr("at most 100000000"));
  EXPECT_THAT(length_refusal(993, 1'000),
              AllOf(HasSubstr("'x.st'"), HasSubstr("past the file's end at 1000")));
  EXPECT_THAT(length_refusal(0, 7), HasSubstr("7 bytes, fewer than the 8"));
}

TEST(SafetensorsLayout, EveryComplaintNamesFileTensorAndReason) {
  const auto good = one("\"F32\"", "[2]", "[0,8]");
  EXPECT_EQ(parse_header(good, 8, "x").tensors.size(), 1u);
  EXPECT_THAT(refusal_of(one("\"F31\"", "[2]", "[0,8]"), 8),
              AllOf(HasSubstr("'x.safetensors'"), HasSubstr("tensor 'w' has dtype \"F31\"")));
  EXPECT_THAT(refusal_of(one("7", "[2]", "[0,8]"), 8), HasSubstr("dtype that is not text"));
  EXPECT_THAT(refusal_of(one("\"F32\"", "[3]", "[0,8]"), 8),
              HasSubstr("has 8 bytes, but shape [3] of F32 takes 12"));
  EXPECT_THAT(refusal_of(one("\"F32\"", "[-2]", "[0,8]"), 8), HasSubstr("-2 in its shape"));
  EXPECT_THAT(refusal_of(one("\"F32\"", "[2.0]", "[0,8]"), 8), HasSubstr("2.0 in its shape"));
  EXPECT_THAT(refusal_of(one("\"F32\"", "2", "[0,8]"), 8), HasSubstr("not a list"));
  EXPECT_THAT(refusal_of(one("\"F32\"", "[4294967296,4294967296]", "[0,0]"), 0),
              HasSubstr("impossible shape [4294967296, 4294967296]"));
  EXPECT_THAT(refusal_of(one("\"F32\"", "[2]", "[0,16]"), 8), HasSubstr("holds 8 bytes"));
  EXPECT_THAT(refusal_of(one("\"F32\"", "[2]", "[8,0]"), 8), HasSubstr("lies at [8, 0)"));
  EXPECT_THAT(refusal_of(one("\"F32\"", "[2]", "[0]"), 8), HasSubstr("not two positions"));
  EXPECT_THAT(refusal_of(good, 9), HasSubstr("tensors end at 8, but it holds 9"));
  EXPECT_THAT(refusal_of(R"({"w":{"dtype":"F32","shape":[2]}})", 8), HasSubstr("exactly dtype"));
  EXPECT_THAT(refusal_of(R"({"w":3})", 8), HasSubstr("not described by an object"));
  EXPECT_THAT(refusal_of(R"({"__metadata__":{"a":1}})", 0), HasSubstr("'a' is not text"));
  EXPECT_THAT(refusal_of("[]", 0), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(refusal_of("{", 0), HasSubstr("not JSON"));
  EXPECT_THAT(refusal_of(R"({"w":{"dtype":[[[[]]]]}})", 0), HasSubstr("too deep"));
}

TEST(SafetensorsLayout, ANameTwiceIsRefused) {
  const std::string w = R"("w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_THAT(refusal_of("{" + w + "," + w + "}", 1), HasSubstr("the name 'w' twice"));
}

TEST(SafetensorsLayout, OverlapsAndHolesAreRefused) {
  auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  EXPECT_EQ(parse_header(two("[4,8]", "[0,4]"), 8, "x").tensors[0].name, "b");
  EXPECT_THAT(refusal_of(two("[0,4]", "[3,7]"), 7), HasSubstr("tensor 'b' begins at 3"));
  EXPECT_THAT(refusal_of(two("[0,4]", "[5,9]"), 9), HasSubstr("tensor 'b' begins at 5"));
  EXPECT_THAT(refusal_of(two("[1,5]", "[5,9]"), 9), HasSubstr("tensor 'a' begins at 1"));
}

TEST(SafetensorsLayout, ATensorCannotTakeTheNameOfTheMetadata) {
  Layout layout{.tensors = {{.name = "__metadata__", .dtype = Dtype::u8, .shape = {1}}}};
  arrange(layout);
  EXPECT_THAT(message_of<InvalidInput>([&] { encode_header(layout); }), HasSubstr("__metadata__"));
}

// Whatever a header becomes, it is refused with a reason or describes exactly the file's bytes.
TEST(SafetensorsLayout, DamagedHeadersAreRefusedOrDescribeTheWholeFile) {
  const std::string good = encode_header(sample()).substr(kLengthBytes);
  std::mt19937 random(4);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string header = good;
    for (unsigned flips = 1 + random() % 3; flips > 0; --flips) {
      const auto at = random() % header.size();
      switch (random() % 3) {
        case 0:
          header[at] = static_cast<char>(random());
          break;
        case 1:
          header.erase(at, 1 + random() % 4);
          break;
        default:
          header.insert(at, 1, "0123456789[]{},:\""[random() % 17]);
      }
    }
    try {
      std::uint64_t bytes = 0;
      for (const auto& entry : parse_header(header, 35, "x").tensors)
        bytes += entry.end - entry.begin;
      EXPECT_EQ(bytes, 35u) << header;
    } catch (const InvalidInput&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10'000);
}

Layout sealed_sample() {
  Layout layout = sample();
  for (const auto& entry : layout.tensors)
    layout.metadata[std::string(kChecksumPrefix) + entry.name] = "0badcafe";
  layout.metadata[std::string(kHeaderChecksum)] = kNoChecksum;
  layout.metadata[std::string(kHeaderIsChecked)] = kChecked;
  return layout;
}

TEST(SafetensorsLayout, EveryFlippedBitOfAHeaderWithAChecksumIsRefused) {
  const std::string good = encode_header(sealed_sample());
  const auto parse = [](const std::string& bytes) {
    const auto length = parse_header_length(bytes, bytes.size() + 35, "x");
    return parse_header(std::string_view(bytes).substr(kLengthBytes, length),
                        bytes.size() + 35 - kLengthBytes - length, "x");
  };
  EXPECT_FALSE(parse(good).metadata.contains(std::string(kHeaderChecksum)));
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    EXPECT_THROW(parse(bytes), InvalidInput) << "bit " << bit << " of " << bytes;
  }
}

TEST(SafetensorsLayout, ChecksumsAreOfEverythingOrOfNothing) {
  Layout layout = sealed_sample();
  layout.metadata.erase(std::string(kChecksumPrefix) + layout.tensors.front().name);
  EXPECT_THAT(refusal_of(encode_header(layout).substr(kLengthBytes), 35),
              HasSubstr("has no checksum"));
  layout = sealed_sample();
  layout.metadata.erase(std::string(kHeaderChecksum));
  EXPECT_THAT(refusal_of(encode_header(layout).substr(kLengthBytes), 35),
              HasSubstr("its header has lost its checksum"));
  layout.metadata.erase(std::string(kHeaderIsChecked));  // as an earlier version wrote it
  EXPECT_EQ(parse_header(encode_header(layout).substr(kLengthBytes), 35, "x").tensors.size(),
            layout.tensors.size());
}

TEST(SafetensorsLayout, ABooleanIsZeroOrOne) {
  const TensorEntry entry{.name = "mask", .dtype = Dtype::boolean, .shape = {3}};
  check_booleans(entry, std::string_view("\0\1\0", 3), "x");
  check_booleans({.name = "bytes", .dtype = Dtype::u8, .shape = {1}}, "\7", "x");
  EXPECT_THAT(
      message_of<InvalidInput>(
          [&] { check_booleans(entry, std::string_view("\0\1\2", 3), "x.st"); }),
      AllOf(HasSubstr("'x.st'"), HasSubstr("tensor 'mask' is BOOL, but has the byte 0x02 at 2")));
}

}  // namespace
}  // namespace cohort::train

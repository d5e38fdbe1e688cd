#include "cohort/base/net/frame_codec.h"

#include <gtest/gtest.h>

#include <random>

#include "cohort/base/error.h"

namespace cohort {
namespace {

constexpr std::size_t kMax = 1000;

Digest key(std::uint8_t fill) {
  Digest digest;
  digest.fill(fill);
  return digest;
}

std::string encoded(std::initializer_list<std::string> payloads) {
  FrameEncoder encoder(key(1), kMax);
  std::string wire;
  for (const auto& payload : payloads) encoder.encode(payload, wire);
  return wire;
}

TEST(FrameCodec, FramesSurviveAnySplitOfTheBytes) {
  std::string wire = encoded({"one", "", std::string(kMax, 'x'), "four"});
  for (std::size_t step : {1, 2, 27, 28, 29, 500, 5000}) {
    FrameDecoder decoder(key(1), kMax);
    std::vector<std::string> seen;
    for (std::size_t i = 0; i < wire.size(); i += step) {
      decoder.feed(std::string_view(wire).substr(i, step));
      while (auto payload = decoder.next()) seen.emplace_back(*payload);
    }
    EXPECT_EQ(seen, (std::vector<std::string>{"one", "", std::string(kMax, 'x'), "four"})) << step;
    EXPECT_EQ(decoder.buffered(), 0u);
  }
}

TEST(FrameCodec, EveryChangedByteIsNoticed) {
  const std::string wire = encoded({"payload"});
  for (std::size_t i = 0; i < wire.size(); ++i) {
    std::string bytes = wire + std::string(kMax, '\0');  // enough for any length within bounds
    bytes[i] = static_cast<char>(bytes[i] ^ 0x10);
    FrameDecoder decoder(key(1), kMax);
    decoder.feed(bytes);
    EXPECT_THROW(decoder.next(), ProtocolError) << "byte " << i;
  }
}

TEST(FrameCodec, AFrameIsRefusedUnderAnotherKeyTwiceAndOutOfOrder) {
  std::string one = encoded({"one"});
  std::string both = encoded({"one", "two"});
  {
    FrameDecoder decoder(key(2), kMax);
    decoder.feed(one);
    EXPECT_THROW(decoder.next(), ProtocolError);
  }
  {
    FrameDecoder decoder(key(1), kMax);
    decoder.feed(one + one);
    EXPECT_EQ(decoder.next(), "one");
    EXPECT_THROW(decoder.next(), ProtocolError);
  }
  {
    FrameDecoder decoder(key(1), kMax);
    decoder.feed(both.substr(one.size()));
    EXPECT_THROW(decoder.next(), ProtocolError);
  }
}

TEST(FrameCodec, AnOversizedFrameIsRefusedOnItsLengthAlone) {
  FrameDecoder decoder(key(1), kMax);
  decoder.feed(std::string_view("\xe9\x03\x00\x00", 4));  // kMax + 1
  EXPECT_THROW(decoder.next(), ProtocolError);
  FrameEncoder encoder(key(1), kMax);
  std::string wire;
  EXPECT_THROW(encoder.encode(std::string(kMax + 1, 'x'), wire), InvalidInput);
  EXPECT_TRUE(wire.empty());
  encoder.encode("still in step", wire);
  FrameDecoder fresh(key(1), kMax);
  fresh.feed(wire);
  EXPECT_EQ(fresh.next(), "still in step");
}

TEST(FrameCodec, ATruncatedFrameIsNeverHandedOut) {
  std::string wire = encoded({"payload"});
  for (std::size_t size = 0; size < wire.size(); ++size) {
    FrameDecoder decoder(key(1), kMax);
    decoder.feed(std::string_view(wire).substr(0, size));
    EXPECT_FALSE(decoder.next().has_value());
  }
}

TEST(FrameCodec, GarbageNeverPasses) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    FrameDecoder decoder(key(1), kMax);
    std::string bytes(random() % 200, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    if (bytes.size() > 3 && round % 2) bytes[1] = bytes[2] = bytes[3] = 0;  // a length that fits
    decoder.feed(bytes);
    try {
      EXPECT_FALSE(decoder.next().has_value());
    } catch (const ProtocolError&) {
    }
  }
}

}  // namespace
}  // namespace cohort

#include "cohort/cluster/store/store_protocol.h"

#include <gtest/gtest.h>

#include <random>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/data/hex_test.h"
#include "cohort/base/error.h"

namespace cohort::cluster {
namespace {

StoreRequest sample_request() {
  return {.op = StoreOp::compare_and_set,
          .id = 0x1122334455667788,
          .timeout_ms = 1500,
          .number = -7,
          .key = "key",
          .value = std::string("v\0lue", 5),
          .expected = "old",
          .members = {"worker/0", "", "worker/2"}};
}

TEST(StoreProtocol, ARequestComesBackAsItWas) {
  StoreRequest request = decode_store_request(encode(sample_request()));
  StoreRequest expected = sample_request();
  EXPECT_EQ(request.op, expected.op);
  EXPECT_EQ(request.id, expected.id);
  EXPECT_EQ(request.timeout_ms, expected.timeout_ms);
  EXPECT_EQ(request.number, expected.number);
  EXPECT_EQ(request.key, expected.key);
  EXPECT_EQ(request.value, expected.value);
  EXPECT_EQ(request.expected, expected.expected);
  EXPECT_EQ(request.members, expected.members);
  expected.expected.reset();
  EXPECT_FALSE(decode_store_request(encode(expected)).expected.has_value());
}

TEST(StoreProtocol, AResponseComesBackAsItWas) {
  StoreResponse response{.status = StoreStatus::mismatch,
                         .id = 9,
                         .number = 1,
                         .key = "k",
                         .value = std::make_shared<const std::string>("v"),
                         .entries = {{"a", "1"}, {"b", ""}}};
  StoreResponse decoded = decode_store_response(encode(response));
  EXPECT_EQ(decoded.status, response.status);
  EXPECT_EQ(decoded.id, response.id);
  EXPECT_EQ(decoded.number, response.number);
  EXPECT_EQ(decoded.key, response.key);
  EXPECT_EQ(*decoded.value, "v");
  EXPECT_EQ(decoded.entries, response.entries);
}

TEST(StoreProtocol, TruncatedExtendedAndUnknownMessagesAreRefused) {
  std::string bytes = encode(sample_request());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(decode_store_request(std::string_view(bytes).substr(0, size)), ProtocolError);
  EXPECT_THROW(decode_store_request(bytes + "x"), ProtocolError);
  bytes[0] = 99;
  EXPECT_THROW(decode_store_request(bytes), ProtocolError);
}

TEST(StoreProtocol, SizesOverTheirBoundsAreRefused) {
  StoreRequest request = sample_request();
  request.key = std::string(kMaxStoreKey + 1, 'k');
  EXPECT_THROW(encode(request), InvalidInput);
  request = sample_request();
  request.value = std::string(kMaxStoreValue + 1, 'v');
  EXPECT_THROW(encode(request), InvalidInput);
  // The same from a client that sends them all the same: op, id, timeout and number stand before.
  const auto expect_bounds = [](std::size_t key, std::size_t value) {
    std::string sent = encode(StoreRequest{}).substr(0, 1 + 8 + 4 + 8);
    ByteWriter(sent)
        .text(std::string(key, 'k'))
        .text(std::string(value, 'v'))
        .integer(std::uint8_t{0})
        .text("")
        .integer(std::uint32_t{0});
    if (key <= kMaxStoreKey && value <= kMaxStoreValue) {
      EXPECT_EQ(decode_store_request(sent).value.size(), value);
    } else {
      EXPECT_THROW(decode_store_request(sent), ProtocolError);
    }
  };
  expect_bounds(kMaxStoreKey, kMaxStoreValue);
  expect_bounds(kMaxStoreKey + 1, 0);
  expect_bounds(0, kMaxStoreValue + 1);
  // A count of 4 billion members in a message of a few bytes.
  std::string bytes = encode(StoreRequest{.op = StoreOp::barrier});
  bytes.replace(bytes.size() - 4, 4, "\xff\xff\xff\xff");
  EXPECT_THROW(decode_store_request(bytes), ProtocolError);
}

TEST(StoreProtocol, DamagedMessagesEitherDecodeOrThrowAProtocolError) {
  std::mt19937 random(7);
  const std::string good = encode(sample_request());
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    try {
      decode_store_request(bytes);
      decode_store_response(bytes);
    } catch (const ProtocolError&) {
    }
  }
}

// What docs/store.md promises to clients of other versions.
TEST(StoreProtocol, BytesOnTheWireStayAsTheyAre) {
  StoreRequest request = sample_request();
  EXPECT_EQ(to_hex(encode(request)),
            "048877665544332211dc050000f9ffffffffffffff030000006b65790500000076006c7565010300"
            "00006f6c640300000008000000776f726b65722f300000000008000000776f726b65722f32");
  request.expected.reset();
  request.members.clear();
  EXPECT_EQ(to_hex(encode(request)),
            "048877665544332211dc050000f9ffffffffffffff030000006b65790500000076006c7565000000"
            "000000000000");
  EXPECT_EQ(to_hex(encode(StoreResponse{.status = StoreStatus::mismatch,
                                        .id = 9,
                                        .number = 1,
                                        .key = "k",
                                        .value = std::make_shared<const std::string>("v"),
                                        .entries = {{"a", "1"}, {"b", ""}}})),
            "0309000000000000000100000000000000010000006b010000007602000000010000006101000000"
            "31010000006200000000");
  EXPECT_EQ(to_hex(encode(StoreResponse{})),
            "0100000000000000000000000000000000000000000000000000000000");
}

}  // namespace
}  // namespace cohort::cluster

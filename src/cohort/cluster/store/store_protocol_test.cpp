#include "cohort/cluster/store/store_protocol.h"

#include <gtest/gtest.h>

#include <random>

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
  EXPECT_THROW(decode_store_request(encode(request)), ProtocolError);
  request = sample_request();
  request.value = std::string(kMaxStoreValue + 1, 'v');
  EXPECT_THROW(decode_store_request(encode(request)), ProtocolError);
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

}  // namespace
}  // namespace cohort::cluster

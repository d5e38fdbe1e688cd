#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/base/net/handshake.h"

// What store clients and the store server say to each other, one message a frame (frame_codec.h).
// docs/store.md has the wire format. Decoding checks every size before it copies and throws
// ProtocolError. Values; thread-compatible.
namespace cohort::cluster {

constexpr std::uint32_t kStoreProtocol = protocol_id("STOR");
constexpr std::size_t kMaxStoreKey = 1024;
constexpr std::size_t kMaxStoreValue = 16 * 1024 * 1024;
constexpr std::size_t kMaxBarrierMembers = 65536;
// A compare-and-set carries two values.
constexpr std::size_t kMaxStoreFrame = 2 * kMaxStoreValue + 64 * 1024;

enum class StoreOp : std::uint8_t {
  set = 1,
  get = 2,  // waits until the key exists
  try_get = 3,
  compare_and_set = 4,
  add = 5,
  wait_counter = 6,  // waits until the counter is at least `number`
  barrier = 7,
  remove = 8,
  list = 9,
  watch = 10,  // answered by one event for each change, from the present state on
  unwatch = 11,
  set_on_disconnect = 12,
  cancel_on_disconnect = 13,
};

struct StoreRequest {
  StoreOp op = StoreOp::set;
  std::uint64_t id = 0;          // the client's number for it; comes back in the response
  std::uint32_t timeout_ms = 0;  // for those that wait; 0: without end
  std::int64_t number = 0;       // delta, threshold, member count, or the id of a watch
  std::string key;               // or prefix, or the barrier's name
  std::string value;             // or the name of a barrier's member
  std::optional<std::string> expected;
  std::vector<std::string> members;  // whom a barrier waits for, where that is known
};

enum class StoreStatus : std::uint8_t {
  ok = 1,
  missing = 2,
  mismatch = 3,   // compare-and-set: `value` (if number is 1) is what is there
  timed_out = 4,  // a barrier's `entries` then name who came
  invalid = 5,    // `value` says what was wrong with the request
  lost = 6,       // `value` says which member of the barrier went away
  event_set = 7,
  event_removed = 8,
  goodbye = 9,  // id 0: the server ends the connection, `value` says why
};

struct StoreResponse {
  StoreStatus status = StoreStatus::ok;
  std::uint64_t id = 0;
  std::int64_t number = 0;
  std::string key;
  std::shared_ptr<const std::string> value;  // shared by all who get it; null is ""
  std::vector<std::pair<std::string, std::string>> entries;

  std::size_t approximate_size() const;
};

// "get", "compare_and_set"...: as in StoreClient.
std::string_view to_string(StoreOp op);

std::string encode(const StoreRequest& request);
std::string encode(const StoreResponse& response);
StoreRequest decode_store_request(std::string_view bytes);
StoreResponse decode_store_response(std::string_view bytes);

}  // namespace cohort::cluster

#include "cohort/cluster/store/store_protocol.h"

#include "cohort/base/data/byte_io.h"

namespace cohort::cluster {
namespace {

constexpr std::size_t kMaxEntries = 1 << 20;

// The count is checked against the bytes that are there, so that it cannot ask for memory.
std::uint32_t read_count(ByteReader& reader, std::size_t max, std::size_t smallest) {
  auto count = reader.integer<std::uint32_t>();
  if (count > max || count > reader.remaining() / smallest)
    throw ProtocolError(fmt::format("a list of {} items does not fit its message", count));
  return count;
}

}  // namespace

std::size_t StoreResponse::approximate_size() const {
  std::size_t size = 64 + key.size() + (value ? value->size() : 0);
  for (const auto& [name, text] : entries) size += 16 + name.size() + text.size();
  return size;
}

std::string_view to_string(StoreOp op) {
  switch (op) {
    case StoreOp::set:
      return "set";
    case StoreOp::get:
      return "get";
    case StoreOp::try_get:
      return "try_get";
    case StoreOp::compare_and_set:
      return "compare_and_set";
    case StoreOp::add:
      return "add";
    case StoreOp::wait_counter:
      return "wait_counter";
    case StoreOp::barrier:
      return "barrier";
    case StoreOp::remove:
      return "remove";
    case StoreOp::list:
      return "list";
    case StoreOp::watch:
      return "watch";
    case StoreOp::unwatch:
      return "unwatch";
    case StoreOp::set_on_disconnect:
      return "set_on_disconnect";
    case StoreOp::cancel_on_disconnect:
      return "cancel_on_disconnect";
  }
  return "unknown operation";
}

std::string encode(const StoreRequest& request) {
  std::string bytes;
  ByteWriter writer(bytes);
  writer.integer(static_cast<std::uint8_t>(request.op))
      .integer(request.id)
      .integer(request.timeout_ms)
      .integer(request.number)
      .text(request.key)
      .text(request.value)
      .integer(static_cast<std::uint8_t>(request.expected.has_value()))
      .text(request.expected.value_or(""))
      .integer(static_cast<std::uint32_t>(request.members.size()));
  for (const auto& member : request.members) writer.text(member);
  return bytes;
}

std::string encode(const StoreResponse& response) {
  std::string bytes;
  ByteWriter writer(bytes);
  writer.integer(static_cast<std::uint8_t>(response.status))
      .integer(response.id)
      .integer(response.number)
      .text(response.key)
      .text(response.value ? std::string_view(*response.value) : std::string_view())
      .integer(static_cast<std::uint32_t>(response.entries.size()));
  for (const auto& [name, text] : response.entries) writer.text(name).text(text);
  return bytes;
}

StoreRequest decode_store_request(std::string_view bytes) {
  ByteReader reader(bytes);
  StoreRequest request;
  auto op = reader.integer<std::uint8_t>();
  if (op < static_cast<std::uint8_t>(StoreOp::set) ||
      op > static_cast<std::uint8_t>(StoreOp::cancel_on_disconnect))
    throw ProtocolError(fmt::format("unknown store operation {}", op));
  request.op = static_cast<StoreOp>(op);
  request.id = reader.integer<std::uint64_t>();
  request.timeout_ms = reader.integer<std::uint32_t>();
  request.number = reader.integer<std::int64_t>();
  request.key = reader.text(kMaxStoreKey);
  request.value = reader.text(kMaxStoreValue);
  bool has_expected = reader.integer<std::uint8_t>() != 0;
  std::string_view expected = reader.text(kMaxStoreValue);
  if (has_expected) request.expected = expected;
  auto count = read_count(reader, kMaxBarrierMembers, 4);
  request.members.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) request.members.emplace_back(reader.text(kMaxStoreKey));
  reader.expect_end();
  return request;
}

StoreResponse decode_store_response(std::string_view bytes) {
  ByteReader reader(bytes);
  StoreResponse response;
  auto status = reader.integer<std::uint8_t>();
  if (status < static_cast<std::uint8_t>(StoreStatus::ok) ||
      status > static_cast<std::uint8_t>(StoreStatus::goodbye))
    throw ProtocolError(fmt::format("unknown store status {}", status));
  response.status = static_cast<StoreStatus>(status);
  response.id = reader.integer<std::uint64_t>();
  response.number = reader.integer<std::int64_t>();
  response.key = reader.text(kMaxStoreKey);
  response.value = std::make_shared<const std::string>(reader.text(kMaxStoreValue));
  auto count = read_count(reader, kMaxEntries, 8);
  response.entries.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::string name(reader.text(kMaxStoreKey));
    response.entries.emplace_back(std::move(name), reader.text(kMaxStoreValue));
  }
  reader.expect_end();
  return response;
}

}  // namespace cohort::cluster

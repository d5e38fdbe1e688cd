#include "cohort/cluster/store/store_protocol.h"

#include "cohort/base/data/fields.h"

namespace cohort::cluster {
namespace {

constexpr std::size_t kMaxEntries = 1 << 20;

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

void fields(auto& io, MessageOf<StoreRequest> auto& request) {
  io.choice(request.op, StoreOp::set, StoreOp::cancel_on_disconnect, "store operation");
  io(request.id), io(request.timeout_ms), io(request.number);
  io.text(request.key, kMaxStoreKey), io.text(request.value, kMaxStoreValue);
  bool has_expected = request.expected.has_value();
  std::string_view expected = request.expected ? *request.expected : std::string_view();
  io(has_expected), io.text(expected, kMaxStoreValue);
  if constexpr (std::remove_reference_t<decltype(io)>::kReads)
    if (has_expected) request.expected.emplace(expected);
  io.list(request.members, kMaxBarrierMembers, 4,
          [](auto& in_list, auto& member) { in_list.text(member, kMaxStoreKey); });
}

void fields(auto& io, MessageOf<StoreResponse> auto& response) {
  io.choice(response.status, StoreStatus::ok, StoreStatus::goodbye, "store status");
  io(response.id), io(response.number), io.text(response.key, kMaxStoreKey);
  std::string_view value = response.value ? *response.value : std::string_view();
  io.text(value, kMaxStoreValue);
  if constexpr (std::remove_reference_t<decltype(io)>::kReads)
    response.value = std::make_shared<const std::string>(value);
  io.list(response.entries, kMaxEntries, 8, [](auto& in_list, auto& entry) {
    in_list.text(entry.first, kMaxStoreKey), in_list.text(entry.second, kMaxStoreValue);
  });
}

std::string encode(const StoreRequest& request) { return encode_fields(request); }
std::string encode(const StoreResponse& response) { return encode_fields(response); }
StoreRequest decode_store_request(std::string_view bytes) {
  return decode_fields<StoreRequest>(bytes);
}
StoreResponse decode_store_response(std::string_view bytes) {
  return decode_fields<StoreResponse>(bytes);
}

}  // namespace cohort::cluster

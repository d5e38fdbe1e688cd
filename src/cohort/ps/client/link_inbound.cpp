#include "cohort/ps/client/link_inbound.h"

#include <utility>

#include "cohort/base/error.h"
#include "cohort/ps/wire/wire_type.h"

namespace cohort::ps {

namespace {

// Pieces of a snapshot that may lie here before the caller has taken them.
constexpr std::size_t kMaxPieces = 16;

}  // namespace

const SliceLocation& LinkInbound::own_slice_locked(std::int32_t slice) const {
  const ClientLayout* layout = link_.client.layout.get();
  if (layout == nullptr || slice < 0 || static_cast<std::size_t>(slice) >= layout->placed.size() ||
      layout->slices[static_cast<std::size_t>(slice)].server != link_.server)
    throw ProtocolError(fmt::format("slice {} is not of this server", slice));
  return layout->placed[static_cast<std::size_t>(slice)];
}

void LinkInbound::finish_part_locked(std::uint64_t id, Request::Kind kind) {
  if (link_.client.requests.finish_part(id, kind, link_.server)) link_.client.changed.notify_all();
}

std::optional<std::byte*> LinkInbound::place(const Message& message, std::size_t bulk_bytes) {
  std::lock_guard lock(link_.client.mutex);
  if (const auto* values = std::get_if<Values>(&message)) {
    const SliceLocation& placed = own_slice_locked(values->slice);
    if (!link_.is_remote() ||
        bulk_bytes != wire_bytes(placed.type, link_.wire(), placed.slice.elements))
      throw ProtocolError(
          fmt::format("{} bytes of values for slice {}", bulk_bytes, values->slice));
    return link_.inbox.data() + placed.inbox_offset;
  }
  if (const auto* rows = std::get_if<Rows>(&message)) {
    receiving_ = link_.client.requests.find(rows->request, Request::Kind::rows, link_.server);
    if (!receiving_)
      throw ProtocolError(fmt::format("rows for request {}, which was not made", rows->request));
    auto& values = receiving_->part(link_.server).values;
    if (bulk_bytes != values.size() * sizeof(float))
      throw ProtocolError(fmt::format("{} bytes of rows where {} were asked for", bulk_bytes,
                                      values.size() * sizeof(float)));
    return reinterpret_cast<std::byte*>(values.data());
  }
  if (std::holds_alternative<SliceState>(message) || std::holds_alternative<TablePiece>(message)) {
    if (link_.client.requests.find_snapshot()->pieces.size() >= kMaxPieces) return std::nullopt;
    piece_.resize(bulk_bytes);
    return piece_.data();
  }
  throw ProtocolError(fmt::format("{} bytes behind a message that has none", bulk_bytes));
}

void LinkInbound::on(const Values& message) {
  std::lock_guard lock(link_.client.mutex);
  own_slice_locked(message.slice);
  if (link_.client.step.on_values(message, link_.is_remote())) link_.client.changed.notify_all();
}

void LinkInbound::on(const RowsDone& message) {
  std::lock_guard lock(link_.client.mutex);
  if (!link_.client.layout) throw ProtocolError("an answer to rows before there is a model");
  if (link_.client.step.on_rows_done(link_.server, message)) link_.client.changed.notify_all();
}

void LinkInbound::on(const Rows& message) {
  std::lock_guard lock(link_.client.mutex);
  auto& requests = link_.client.requests;
  if (const auto request = requests.find(message.request, Request::Kind::rows, link_.server))
    request->part(link_.server).version = message.version;
  finish_part_locked(message.request, Request::Kind::rows);
  receiving_.reset();
}

void LinkInbound::on(const StepDone& message) {
  std::lock_guard lock(link_.client.mutex);
  if (link_.server == 0 && link_.client.step.on_step_done(message))
    link_.client.changed.notify_all();
}

void LinkInbound::on(const PullDone& message) {
  std::lock_guard lock(link_.client.mutex);
  finish_part_locked(message.request, Request::Kind::pull);
}

void LinkInbound::on(const Frozen& message) {
  std::lock_guard lock(link_.client.mutex);
  auto& requests = link_.client.requests;
  if (const auto request = requests.find(message.request, Request::Kind::freeze, link_.server))
    request->part(link_.server).sequences = message.sequences;
  finish_part_locked(message.request, Request::Kind::freeze);
}

void LinkInbound::on(const SliceState& message, std::size_t bulk_bytes) {
  std::lock_guard lock(link_.client.mutex);
  const SliceLocation& placed = own_slice_locked(message.slice);
  if (bulk_bytes != placed.bytes * static_cast<std::size_t>(1 + placed.slots))
    throw ProtocolError(fmt::format("{} bytes of state of slice {}", bulk_bytes, message.slice));
  auto& requests = link_.client.requests;
  if (const auto request = requests.find(message.request, Request::Kind::snapshot, link_.server))
    request->pieces.push_back({message.slice, -1, message.updates, std::exchange(piece_, {})});
  piece_ = {};
  link_.client.changed.notify_all();
}

void LinkInbound::on(const TablePiece& message) {
  std::lock_guard lock(link_.client.mutex);
  const ClientLayout* layout = link_.client.layout.get();
  if (layout == nullptr || message.table < 0 ||
      static_cast<std::size_t>(message.table) >= layout->spec.tables.size())
    throw ProtocolError(fmt::format("a piece of table {}", message.table));
  link_.client.requests.find_snapshot()->pieces.push_back(
      {-1, message.table, 0, std::exchange(piece_, {})});
  link_.client.changed.notify_all();
}

void LinkInbound::on(const SnapshotDone& message) {
  std::lock_guard lock(link_.client.mutex);
  finish_part_locked(message.request, Request::Kind::snapshot);
}

void LinkInbound::on(const Stats& message) {
  std::lock_guard lock(link_.client.mutex);
  auto& requests = link_.client.requests;
  if (const auto request = requests.find(message.request, Request::Kind::stats, link_.server))
    request->part(link_.server).text = message.json;
  finish_part_locked(message.request, Request::Kind::stats);
}

}  // namespace cohort::ps

#include "cohort/ps/client/link_outbound.h"

#include <utility>

#include "cohort/base/error.h"
#include "cohort/ps/wire/wire_type.h"

namespace cohort::ps {

void LinkOutbound::enqueue_locked(Item item) {
  if (link_.ready) queue_.push_back(std::move(item));
}

void LinkOutbound::connection_lost_locked() {
  queue_.clear();
  sending_.reset();
  initial_next_ = 0;
}

void LinkOutbound::queue_again_locked() {
  queue_.clear();
  const StepState& step = link_.client.step;
  if (step.waits_for(link_.server)) {
    queue_.push_back({Item::Kind::step_begin, 0, nullptr});
    for (const int slice : step.pushed(link_.server))
      if (!step.is_answered(slice)) queue_.push_back({Item::Kind::push, slice, nullptr});
    const auto tables = static_cast<int>(link_.client.layout->spec.tables.size());
    for (int table = 0; table < tables; ++table) {
      const StepState::Rows& rows = step.rows(link_.server, table);
      if (rows.pushed && !rows.answered) queue_.push_back({Item::Kind::rows_push, table, nullptr});
    }
    if (step.is_ended()) queue_.push_back({Item::Kind::step_end, 0, nullptr});
  }
  for (const auto& request : link_.client.requests.open_of(link_.server))
    queue_.push_back({Item::Kind::request, 0, request});
}

bool LinkOutbound::produce(Outgoing& next) {
  ClientState& client = link_.client;
  std::unique_lock lock(client.mutex);
  if (!link_.welcome || client.failure) return false;
  if (!link_.ready) {
    if (client.initial == nullptr) return false;
    lock.unlock();
    return produce_initial(next);
  }
  // What was given before is written now.
  const auto sent = std::exchange(sending_, nullptr);
  if (sent && sent->kind == Request::Kind::leave &&
      client.requests.finish_part(sent->id, Request::Kind::leave, link_.server))
    client.changed.notify_all();
  while (!queue_.empty()) {
    const Item item = std::move(queue_.front());
    queue_.pop_front();
    if (produce_item_locked(item, next)) return true;
  }
  return false;
}

// Init, every slice, every piece of every table, Commit: as many as the socket takes, one at a time
// in memory.
bool LinkOutbound::produce_initial(Outgoing& next) {
  // Both stay until begin() has made sure that this thread is not here.
  const InitialState& initial = *link_.client.initial;
  const ClientLayout& layout = *link_.client.layout;
  std::size_t number = initial_next_;
  const auto& slices = layout.of_server[static_cast<std::size_t>(link_.server)];
  if (number == 0) {
    encode_into(Init{initial.first_step, layout.spec_text}, next.control);
    ++initial_next_;
    return true;
  }
  number -= 1;
  if (number < slices.size()) {
    const int slice = slices[number];
    const SliceLocation& placed = layout.placed[static_cast<std::size_t>(slice)];
    initial_bytes_.resize(placed.bytes * static_cast<std::size_t>(1 + placed.slots));
    for (int slot = -1; slot < placed.slots; ++slot)
      initial.read(placed.slice.block, slot, placed.slice.offset, placed.slice.elements,
                   initial_bytes_.data() + static_cast<std::size_t>(slot + 1) * placed.bytes);
    encode_into(SetSlice{slice, initial.updates}, next.control);
    next.bulk = initial_bytes_.data();
    next.bulk_bytes = initial_bytes_.size();
    ++initial_next_;
    return true;
  }
  number -= slices.size();
  for (std::size_t table = 0; table < initial.table_pieces.size(); ++table) {
    const auto& pieces = initial.table_pieces[table];
    if (number < pieces.size()) {
      encode_into(TablePiece{static_cast<std::int32_t>(table)}, next.control);
      next.bulk = reinterpret_cast<const std::byte*>(pieces[number].data());
      next.bulk_bytes = pieces[number].size();
      ++initial_next_;
      return true;
    }
    number -= pieces.size();
  }
  if (number > 0) return false;
  encode_into(Commit{}, next.control);
  ++initial_next_;
  initial_bytes_ = {};
  return true;
}

bool LinkOutbound::produce_item_locked(const Item& item, Outgoing& next) {
  const StepState& step = link_.client.step;
  if (item.kind == Item::Kind::request) return produce_request_locked(item.request, next);
  if (!step.is_active()) return false;
  switch (item.kind) {
    case Item::Kind::step_begin:
      encode_into(step.begun(), next.control);
      return true;
    case Item::Kind::push:
      return produce_push_locked(item.index, next);
    case Item::Kind::rows_push: {
      const StepState::Rows& rows = step.rows(link_.server, item.index);
      if (rows.answered) return false;
      encode_into(RowsPush{item.index, step.begun().sequence, rows.version}, next.control);
      next.bulk = rows.bytes.data();
      next.bulk_bytes = rows.bytes.size();
      return true;
    }
    case Item::Kind::step_end:
      encode_into(step.ended(), next.control);
      return true;
    case Item::Kind::request:
      break;
  }
  return false;
}

bool LinkOutbound::produce_push_locked(int slice, Outgoing& next) {
  const StepState& step = link_.client.step;
  if (step.is_answered(slice)) return false;
  const ClientLayout& layout = *link_.client.layout;
  const SliceLocation& placed = layout.placed[static_cast<std::size_t>(slice)];
  encode_into(Push{slice, step.begun().sequence, step.version(slice), placed.outbox_offset},
              next.control);
  if (link_.is_remote()) {
    next.bulk = link_.outbox.at(placed.outbox_offset);
    next.bulk_bytes = wire_bytes(placed.type, link_.wire(), placed.slice.elements) *
                      static_cast<std::size_t>(layout.nodes);
  }
  return true;
}

bool LinkOutbound::produce_request_locked(const std::shared_ptr<Request>& request, Outgoing& next) {
  const Request::Part& part = request->part(link_.server);
  if (part.done || request->broken) return false;
  switch (request->kind) {
    case Request::Kind::pull:
      encode_into(Pull{request->id, request->clock, request->before}, next.control);
      break;
    case Request::Kind::rows:
      encode_into(RowsPull{request->id, request->table, request->sequence}, next.control);
      next.bulk = reinterpret_cast<const std::byte*>(part.keys.data());
      next.bulk_bytes = part.keys.size() * sizeof(std::uint64_t);
      break;
    case Request::Kind::freeze:
      encode_into(FreezeRequest{request->id}, next.control);
      break;
    case Request::Kind::snapshot:
      encode_into(SnapshotRequest{request->id, request->limits}, next.control);
      break;
    case Request::Kind::stats:
      encode_into(AskStats{request->id}, next.control);
      break;
    case Request::Kind::leave:
      encode_into(Leave{}, next.control);
      break;
  }
  sending_ = request;
  return true;
}

}  // namespace cohort::ps

// What a link sends, made from the client's state at the moment the socket takes it.
#include <cstring>

#include "cohort/base/error.h"
#include "cohort/ps/client/client_link.h"
#include "cohort/ps/wire/wire_type.h"

namespace cohort::ps {

WireType Link::wire() const {
  return reach_ == Reach::remote ? core_.options.wire : WireType::exact;
}

void Link::enqueue_locked(Item item) {
  if (ready_) queue_.push_back(std::move(item));
}

// After a Welcome: everything that this server may not have, or whose answer was lost.
void Link::queue_again_locked() {
  queue_.clear();
  const auto server = static_cast<std::size_t>(server_);
  const StepState& step = core_.step;
  if (step.active) {
    const StepState::Server& share = step.servers[server];
    const bool waits = share.missing > 0 || !step.ended || (server_ == 0 && !step.done);
    if (waits) {
      queue_.push_back({Item::Kind::step_begin});
      for (const int slice : share.pushed)
        if (!step.answered[static_cast<std::size_t>(slice)])
          queue_.push_back({Item::Kind::push, slice});
      for (std::size_t table = 0; table < share.tables.size(); ++table)
        if (share.tables[table].pushed && !share.tables[table].answered)
          queue_.push_back({Item::Kind::rows_push, static_cast<int>(table)});
      if (step.ended) queue_.push_back({Item::Kind::step_end});
    }
  }
  for (const auto& [id, request] : core_.requests)
    if (request->parts[server].wanted && !request->parts[server].done && !request->broken)
      queue_.push_back({Item::Kind::request, 0, request});
}

bool Link::produce(Outgoing& next) {
  if (better_) return false;
  if (local_name_ == LocalNameState::wanted) {
    encode_into(AskLocalName{}, next.control);
    local_name_ = LocalNameState::asked;
    return true;
  }
  if (local_name_ == LocalNameState::asked) return false;
  if (!said_hello_) return produce_hello(next);
  std::unique_lock lock(core_.mutex);
  if (!welcome_ || core_.failure) return false;
  if (!ready_) {
    if (core_.initial == nullptr) return false;
    lock.unlock();
    return produce_initial(next);
  }
  if (sending_ && sending_->kind == Request::Kind::leave)  // it is written now
    finish_part_locked(sending_->id, Request::Kind::leave);
  sending_.reset();
  while (!queue_.empty()) {
    const Item item = std::move(queue_.front());
    queue_.pop_front();
    if (produce_item_locked(item, next)) return true;
  }
  return false;
}

bool Link::produce_hello(Outgoing& next) {
  std::lock_guard lock(core_.mutex);
  // The chief asks before it has a model; the others, when they are ready to wait for one.
  if (!core_.layout && !core_.options.chief) return false;
  encode_into(Hello{.worker = core_.options.worker,
                    .workers = core_.options.workers,
                    .server = server_,
                    .servers = core_.servers(),
                    .incarnation = core_.options.incarnation,
                    .process = core_.process,
                    .chief = core_.options.chief,
                    .wire = wire()},
              next.control);
  if (reach_ == Reach::local) next.file = outbox_.file();
  said_hello_ = true;
  return true;
}

// Init, every slice, every piece of every table, Commit: as many as the socket takes, one at a time
// in memory.
bool Link::produce_initial(Outgoing& next) {
  // Both stay until begin() has made sure that this thread is not here.
  const InitialState& initial = *core_.initial;
  const ClientLayout& layout = *core_.layout;
  std::size_t number = initial_next_;
  const auto& slices = layout.of_server[static_cast<std::size_t>(server_)];
  if (number == 0) {
    encode_into(Init{initial.first_step, layout.spec_text}, next.control);
    ++initial_next_;
    return true;
  }
  number -= 1;
  if (number < slices.size()) {
    const int slice = slices[number];
    const PlacedSlice& placed = layout.placed[static_cast<std::size_t>(slice)];
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

bool Link::produce_item_locked(const Item& item, Outgoing& next) {
  const StepState& step = core_.step;
  if (item.kind == Item::Kind::request) return produce_request_locked(item.request, next);
  if (!step.active) return false;
  switch (item.kind) {
    case Item::Kind::step_begin:
      encode_into(step.begin, next.control);
      return true;
    case Item::Kind::push:
      return produce_push_locked(item.index, next);
    case Item::Kind::rows_push: {
      const auto& rows = step.servers[static_cast<std::size_t>(server_)]
                             .tables[static_cast<std::size_t>(item.index)];
      if (rows.answered) return false;
      encode_into(RowsPush{item.index, step.begin.sequence, rows.version}, next.control);
      next.bulk = rows.bytes.data();
      next.bulk_bytes = rows.bytes.size();
      return true;
    }
    case Item::Kind::step_end:
      encode_into(step.end, next.control);
      return true;
    case Item::Kind::request:
      break;
  }
  return false;
}

bool Link::produce_push_locked(int slice, Outgoing& next) {
  const StepState& step = core_.step;
  const auto i = static_cast<std::size_t>(slice);
  if (step.answered[i]) return false;
  const PlacedSlice& placed = core_.layout->placed[i];
  encode_into(Push{slice, step.begin.sequence, step.version[i], placed.outbox_offset},
              next.control);
  if (reach_ == Reach::remote) {
    next.bulk = outbox_.at(placed.outbox_offset);
    next.bulk_bytes = wire_bytes(placed.type, wire(), placed.slice.elements) *
                      static_cast<std::size_t>(core_.layout->nodes);
  }
  return true;
}

bool Link::produce_request_locked(const std::shared_ptr<Request>& request, Outgoing& next) {
  const Request::Part& part = request->parts[static_cast<std::size_t>(server_)];
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
    case Request::Kind::hold:
      encode_into(Hold{request->id}, next.control);
      break;
    case Request::Kind::cut:
      encode_into(Cut{request->id, request->limits}, next.control);
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

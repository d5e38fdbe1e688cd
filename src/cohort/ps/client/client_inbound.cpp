// What a link receives.
#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/ps/client/client_link.h"
#include "cohort/ps/wire/wire_type.h"

namespace cohort::ps {

namespace {

// Pieces of a consistent copy that may lie here before the caller has taken them.
constexpr std::size_t kMaxPieces = 16;

}  // namespace

const PlacedSlice& Link::own_slice_locked(std::int32_t slice) const {
  if (!core_.layout || slice < 0 ||
      static_cast<std::size_t>(slice) >= core_.layout->placed.size() ||
      core_.layout->slices[static_cast<std::size_t>(slice)].server != server_)
    throw ProtocolError(fmt::format("slice {} is not of this server", slice));
  return core_.layout->placed[static_cast<std::size_t>(slice)];
}

std::shared_ptr<Request> Link::find_locked(std::uint64_t request, Request::Kind kind) {
  const auto found = core_.requests.find(request);
  if (found == core_.requests.end()) return nullptr;
  if (found->second->kind != kind ||
      !found->second->parts[static_cast<std::size_t>(server_)].wanted)
    throw ProtocolError(fmt::format("an answer to request {} of another kind", request));
  return found->second;
}

std::shared_ptr<Request> Link::cut_locked() {
  for (const auto& [id, request] : core_.requests)
    if (request->kind == Request::Kind::cut) return request;
  throw ProtocolError("a piece of a consistent copy that nobody asked for");
}

void Link::finish_part_locked(std::uint64_t id, Request::Kind kind) {
  const auto request = find_locked(id, kind);
  if (!request) return;  // nobody waits for it any more
  Request::Part& part = request->parts[static_cast<std::size_t>(server_)];
  if (part.done) return;
  part.done = true;
  --request->missing;
  core_.changed.notify_all();
}

std::optional<std::byte*> Link::place(std::string_view control, std::size_t bulk_bytes) {
  const Message message = decode_message(control);
  std::lock_guard lock(core_.mutex);
  if (const auto* values = std::get_if<Values>(&message)) {
    const PlacedSlice& placed = own_slice_locked(values->slice);
    if (reach_ != Reach::remote ||
        bulk_bytes != wire_bytes(placed.type, wire(), placed.slice.elements))
      throw ProtocolError(
          fmt::format("{} bytes of values for slice {}", bulk_bytes, values->slice));
    return inbox_.data() + placed.inbox_offset;
  }
  if (const auto* rows = std::get_if<Rows>(&message)) {
    receiving_ = find_locked(rows->request, Request::Kind::rows);
    if (!receiving_)
      throw ProtocolError(fmt::format("rows for request {}, which nobody made", rows->request));
    auto& values = receiving_->parts[static_cast<std::size_t>(server_)].values;
    if (bulk_bytes != values.size() * sizeof(float))
      throw ProtocolError(fmt::format("{} bytes of rows where {} were asked for", bulk_bytes,
                                      values.size() * sizeof(float)));
    return reinterpret_cast<std::byte*>(values.data());
  }
  if (std::holds_alternative<SliceState>(message) || std::holds_alternative<TablePiece>(message)) {
    if (cut_locked()->pieces.size() >= kMaxPieces) return std::nullopt;
    piece_.resize(bulk_bytes);
    return piece_.data();
  }
  throw ProtocolError(fmt::format("{} bytes behind a message that has none", bulk_bytes));
}

void Link::received(std::string_view control, std::byte* bulk, std::size_t bulk_bytes,
                    UniqueFd file) {
  std::visit(
      [&](const auto& message) {
        using T = std::decay_t<decltype(message)>;
        if constexpr (std::is_same_v<T, Welcome>)
          on(message, std::move(file));
        else if constexpr (std::is_same_v<T, SliceState> || std::is_same_v<T, TablePiece>)
          on(message, bulk, bulk_bytes);
        else if constexpr (requires { on(message); })
          on(message);
        else
          throw ProtocolError("a worker's message came from a server");
      },
      decode_message(control));
}

// The server's own socket on this host takes the connection's place where it can be reached.
void Link::on(const LocalName& message) {
  if (local_name_ != LocalNameState::asked)
    throw ProtocolError("a socket's name that nobody asked for");
  local_name_ = LocalNameState::known;
  if (!message.name.empty()) better_ = connect_unix(message.name);
  if (better_) return;
  if (reach_ == Reach::local) throw PeerError("its Unix socket cannot be reached");
  enter();
  connection_->wake();
}

void Link::on(const Welcome& message, UniqueFd file) {
  std::shared_ptr<const SegmentReader> reader;
  if (message.initialised && file) reader = std::make_shared<SegmentReader>(std::move(file));
  std::lock_guard lock(core_.mutex);
  welcome_ = true;
  connection_->wake();  // what waited for this
  pause_ = std::chrono::milliseconds(2);
  core_.changed.notify_all();
  lacks_model_ = !message.initialised;
  if (lacks_model_) {
    const std::uint64_t first = core_.initial != nullptr ? core_.initial->first_step : 0;
    if (core_.begun || finished_ > first)
      core_.fail_locked(std::make_exception_ptr(Error(
          fmt::format("{} was started anew and has lost the model", core_.server_name(server_)),
          {.task = core_.worker_name(),
           .advice = "Choose a durability of `process` or more, or begin the training again "
                     "from its last checkpoint."})));
    return;
  }
  if (reach_ == Reach::local && core_.layout && !reader)
    throw ProtocolError("a Welcome on this host came without the server's memory");
  if (core_.begun && message.spec != spec_)
    core_.fail_locked(std::make_exception_ptr(
        Error(fmt::format("{} now has another model", core_.server_name(server_)))));
  ready_ = true;
  finished_ = message.finished;
  spec_ = message.spec;
  if (reader) reader_ = std::move(reader);
  if (core_.begun) {
    ++core_.reconnects;
    log::info("connected to {} again", core_.server_name(server_));
  }
  if (core_.layout) queue_again_locked();
}

void Link::on(const Values& message) {
  std::lock_guard lock(core_.mutex);
  own_slice_locked(message.slice);
  StepState& step = core_.step;
  const auto slice = static_cast<std::size_t>(message.slice);
  if (message.reason == Values::Reason::pulled) {
    if (reach_ == Reach::remote) step.version[slice] = message.version;
    return;
  }
  if (!step.active || message.sequence != step.begin.sequence || !step.pushed[slice])
    throw ProtocolError(
        fmt::format("an answer to a push of slice {} in step {}, which was not "
                    "made",
                    message.slice, message.sequence));
  if (step.answered[slice]) return;
  step.answered[slice] = 1;
  if (reach_ == Reach::remote) step.version[slice] = message.version;
  if (message.reason != Values::Reason::applied) ++step.dropped;
  step.ready.push_back(message.slice);
  --step.servers[static_cast<std::size_t>(server_)].missing;
  --step.missing;
  core_.changed.notify_all();
}

void Link::on(const RowsDone& message) {
  std::lock_guard lock(core_.mutex);
  StepState& step = core_.step;
  auto& share = step.servers[static_cast<std::size_t>(server_)];
  if (!step.active || message.sequence != step.begin.sequence || message.table < 0 ||
      static_cast<std::size_t>(message.table) >= share.tables.size())
    throw ProtocolError(
        fmt::format("an answer to rows of table {} in step {}, which were not "
                    "pushed",
                    message.table, message.sequence));
  StepState::Rows& rows = share.tables[static_cast<std::size_t>(message.table)];
  if (rows.answered) return;
  rows.answered = true;
  rows.done = message.version;
  if (message.reason != Values::Reason::applied) ++step.dropped;
  --share.missing;
  --step.missing;
  core_.changed.notify_all();
}

void Link::on(const Rows& message) {
  std::lock_guard lock(core_.mutex);
  if (const auto request = find_locked(message.request, Request::Kind::rows))
    request->parts[static_cast<std::size_t>(server_)].version = message.version;
  finish_part_locked(message.request, Request::Kind::rows);
  receiving_.reset();
}

void Link::on(const StepDone& message) {
  std::lock_guard lock(core_.mutex);
  StepState& step = core_.step;
  if (server_ != 0 || !step.active || message.sequence != step.begin.sequence) return;
  step.done = true;
  step.result = message;
  core_.changed.notify_all();
}

void Link::on(const PullDone& message) {
  std::lock_guard lock(core_.mutex);
  finish_part_locked(message.request, Request::Kind::pull);
}

void Link::on(const Held& message) {
  std::lock_guard lock(core_.mutex);
  if (const auto request = find_locked(message.request, Request::Kind::hold))
    request->parts[static_cast<std::size_t>(server_)].sequences = message.sequences;
  finish_part_locked(message.request, Request::Kind::hold);
}

void Link::on(const SliceState& message, std::byte*, std::size_t bulk_bytes) {
  std::lock_guard lock(core_.mutex);
  const PlacedSlice& placed = own_slice_locked(message.slice);
  if (bulk_bytes != placed.bytes * static_cast<std::size_t>(1 + placed.slots))
    throw ProtocolError(fmt::format("{} bytes of state of slice {}", bulk_bytes, message.slice));
  if (const auto request = find_locked(message.request, Request::Kind::cut))
    request->pieces.push_back({message.slice, -1, message.updates, std::move(piece_)});
  piece_ = {};
  core_.changed.notify_all();
}

void Link::on(const TablePiece& message, std::byte*, std::size_t) {
  std::lock_guard lock(core_.mutex);
  if (!core_.layout || message.table < 0 ||
      static_cast<std::size_t>(message.table) >= core_.layout->spec.tables.size())
    throw ProtocolError(fmt::format("a piece of table {}", message.table));
  cut_locked()->pieces.push_back({-1, message.table, 0, std::move(piece_)});
  piece_ = {};
  core_.changed.notify_all();
}

void Link::on(const CutDone& message) {
  std::lock_guard lock(core_.mutex);
  finish_part_locked(message.request, Request::Kind::cut);
}

void Link::on(const Stats& message) {
  std::lock_guard lock(core_.mutex);
  if (const auto request = find_locked(message.request, Request::Kind::stats))
    request->parts[static_cast<std::size_t>(server_)].text = message.json;
  finish_part_locked(message.request, Request::Kind::stats);
}

void Link::on(const Refused& message) {
  core_.fail(std::make_exception_ptr(
      Error(fmt::format("{} refused: {}", core_.server_name(server_), message.reason),
            {.task = core_.worker_name(), .advice = message.advice})));
}

}  // namespace cohort::ps

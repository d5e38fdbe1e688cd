#include "cohort/ps/durable/replica_link.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/ps/durable/replica_messages.h"
#include "cohort/ps/state/state_snapshot.h"

namespace cohort::ps {
namespace {

using namespace std::chrono_literals;
using Clock = EventLoop::Clock;
using Callback = std::function<void()>;

constexpr auto kPatience = 1000ms;

// A record, until it counts. It does not before `durable` was called.
struct QueuedRecord {
  std::uint64_t index = 0;
  UpdateRecord record;  // its payload is `payload`
  std::shared_ptr<const std::string> payload;
  Callback durable;
  Clock::time_point since = Clock::now();
};

// A caller of save_snapshot() that waits until the copy has all up to `index`.
struct SnapshotWait {
  std::uint64_t index = 0;
  Callback done;
  Clock::time_point since = Clock::now();
};

class ReplicaLink final : public UpdateLog, private ConnectionOwner {
 public:
  ReplicaLink(EventLoop& loop, const ReplicaOptions& options);
  ~ReplicaLink() override;

  void append(const UpdateRecord& record, Callback durable) override;
  void save_snapshot(const ServerState& state, Callback done) override;
  bool wants_snapshot() const override { return state_ == nullptr; }

 private:
  enum class Phase { greeting, waiting, sending };  // waiting: for the answer

  void opened(const std::string& identity) override;
  std::optional<std::byte*> place(std::string_view control, std::size_t bulk_bytes) override;
  void received(std::string_view control, std::byte* bulk, std::size_t bulk_bytes,
                UniqueFd file) override;
  bool produce(Outgoing& next) override;

  void on_welcome(const ReplicaWelcome& welcome);
  void on_refused(const ReplicaRefused& refused);
  void acknowledge(std::uint64_t index);
  void deliver();
  void take_snapshot();
  bool produce_piece(Outgoing& next);
  bool on_lost(std::exception_ptr error);
  void be_patient();
  void watch();

  EventLoop& loop_;
  const ReplicaOptions options_;
  const std::string holder_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  const ServerState* state_ = nullptr;
  std::deque<QueuedRecord> items_;  // indices without a gap, the last is next_index_ - 1
  std::deque<SnapshotWait> snapshot_waits_;
  std::uint64_t next_index_ = 1;
  std::uint64_t acknowledged_ = 0;

  // Of the connection as it is now.
  Phase phase_ = Phase::greeting;
  bool needs_snapshot_ = false;
  bool in_step_ = false;    // there is a copy at the other end
  std::uint64_t sent_ = 0;  // items up to this index
  std::deque<std::string> pieces_;
  std::string piece_;                           // being written
  std::shared_ptr<const std::string> payload_;  // being written
  std::optional<ReplicaImageEnd> snapshot_end_;

  std::string trouble_;    // why there is no connection
  bool replaced_ = false;  // by another process: this server has to end
  bool warned_ = false;
  std::optional<EventLoop::TimerId> patience_;
  std::unique_ptr<TlsContext> tls_;
  ServerConnector connector_;
};

ReplicaLink::ReplicaLink(EventLoop& loop, const ReplicaOptions& options)
    : loop_(loop),
      options_([&] {
        ReplicaOptions own = options;
        if (own.incarnation == 0)
          own.incarnation =
              static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch() / 1ns);
        return own;
      }()),
      holder_(replica_holder_name(options)),
      tls_(replica_tls(options_)),
      connector_(loop, replica_connector_options(options_, tls_.get()), *this,
                 [this](std::exception_ptr error) { return on_lost(error); }) {
  connector_.connect();
}

ReplicaLink::~ReplicaLink() {
  *alive_ = false;
  if (patience_) loop_.cancel(*patience_);
}

void ReplicaLink::append(const UpdateRecord& record, Callback durable) {
  if (record.payload.size() > kMaxBulkBytes)
    throw InvalidInput(fmt::format("an update of {} bytes; a replica takes {}",
                                   record.payload.size(), kMaxBulkBytes),
                       {.advice = "Push fewer rows at a time."});
  QueuedRecord item{.index = next_index_++, .record = record, .durable = std::move(durable)};
  item.payload = std::make_shared<std::string>(reinterpret_cast<const char*>(record.payload.data()),
                                               record.payload.size());
  item.record.payload = {};
  items_.push_back(std::move(item));
  be_patient();
  connector_.kick();
}

void ReplicaLink::save_snapshot(const ServerState& state, Callback done) {
  COHORT_CHECK(!state_ || state_ == &state, "a replica of two states");
  state_ = &state;
  snapshot_waits_.push_back({.index = next_index_ - 1, .done = std::move(done)});
  be_patient();
  loop_.post([this, alive = alive_] {
    if (*alive) deliver();
  });
  connector_.kick();
}

void ReplicaLink::opened(const std::string&) {
  phase_ = Phase::greeting;
  in_step_ = false;
  pieces_.clear();
  snapshot_end_.reset();
  connector_.settled();
  connector_.wake();
}

std::optional<std::byte*> ReplicaLink::place(std::string_view, std::size_t bulk_bytes) {
  throw ProtocolError(fmt::format("{} sent {} bytes that belong to nothing", holder_, bulk_bytes));
}

void ReplicaLink::received(std::string_view control, std::byte*, std::size_t, UniqueFd) {
  ReplicaMessage message = decode_replica_message(control);
  if (auto* welcome = std::get_if<ReplicaWelcome>(&message); welcome && phase_ == Phase::waiting)
    on_welcome(*welcome);
  else if (auto* ack = std::get_if<ReplicaAck>(&message); ack && phase_ == Phase::sending)
    acknowledge(ack->index);
  else if (auto* refused = std::get_if<ReplicaRefused>(&message))
    on_refused(*refused);
  else
    throw ProtocolError(fmt::format("{} sent a message out of turn", holder_));
}

void ReplicaLink::on_welcome(const ReplicaWelcome& welcome) {
  connector_.reset_pause();
  phase_ = Phase::sending;
  trouble_.clear();
  bool same = welcome.has_copy && welcome.incarnation == options_.incarnation;
  if (same && welcome.applied >= next_index_)
    throw ProtocolError(
        fmt::format("{} has record {}, which was never sent", holder_, welcome.applied));
  needs_snapshot_ = !same || welcome.applied < acknowledged_;
  if (!needs_snapshot_) {
    sent_ = welcome.applied;
    acknowledge(welcome.applied);
  }
  connector_.wake();
}

void ReplicaLink::on_refused(const ReplicaRefused& refused) {
  if (!refused.replaced)
    throw ProtocolError(fmt::format("it refuses the copy: {}", refused.reason));
  replaced_ = true;
  // Not from here: what is thrown here ends the connection, not the loop.
  loop_.post([alive = alive_, holder = holder_, reason = refused.reason] {
    if (*alive)
      throw Error(fmt::format("{} refuses this server's updates: {}", holder, reason),
                  {.advice = "Another process has taken its place; this one must end."});
  });
  throw PeerError(refused.reason);
}

void ReplicaLink::acknowledge(std::uint64_t index) {
  if (index > sent_)
    throw ProtocolError(fmt::format("{} acknowledges what was never sent", holder_));
  acknowledged_ = std::max(acknowledged_, index);
  in_step_ = true;
  if (std::exchange(warned_, false)) log::info("{} holds the copy again", holder_);
  // What the server throws must not look like a failure of this connection.
  loop_.post([this, alive = alive_] {
    if (*alive) deliver();
  });
}

void ReplicaLink::deliver() {
  auto alive = alive_;
  while (*alive && !items_.empty() && items_.front().index <= acknowledged_) {
    Callback durable = std::move(items_.front().durable);
    items_.pop_front();
    durable();
  }
  while (*alive && in_step_ && !snapshot_waits_.empty() &&
         snapshot_waits_.front().index <= acknowledged_) {
    Callback done = std::move(snapshot_waits_.front().done);
    snapshot_waits_.pop_front();
    done();
  }
}

// The state as it counts now, without the records that are under way: those follow again.
void ReplicaLink::take_snapshot() {
  // An update of a table is prepared in place: it is taken back for the moment of the copy. The
  // object is the server's own, which it changes between our calls.
  auto& state = const_cast<ServerState&>(*state_);
  std::vector<UpdateRecord> prepared;
  for (const QueuedRecord& item : items_) {
    if (item.record.kind != UpdateRecord::Kind::sparse) continue;
    prepared.push_back(item.record);
    prepared.back().payload = std::as_bytes(std::span(*item.payload));
  }
  for (const UpdateRecord& record : prepared) state.abandon(record);
  write_snapshot(state, [&](std::string_view piece) { pieces_.emplace_back(piece); });
  for (const UpdateRecord& record : prepared) state.prepare(record);
  sent_ = items_.empty() ? next_index_ - 1 : items_.front().index - 1;
  snapshot_end_ = ReplicaImageEnd{.index = sent_, .pieces = pieces_.size()};
}

bool ReplicaLink::produce_piece(Outgoing& next) {
  if (pieces_.empty()) {
    next.control = encode(*snapshot_end_);
    snapshot_end_.reset();
    return true;
  }
  piece_ = std::move(pieces_.front());
  pieces_.pop_front();
  next.control = encode(ReplicaPiece{});
  next.bulk = reinterpret_cast<const std::byte*>(piece_.data());
  next.bulk_bytes = piece_.size();
  return true;
}

bool ReplicaLink::produce(Outgoing& next) {
  if (phase_ == Phase::greeting) {
    phase_ = Phase::waiting;
    next.control = encode(ReplicaHello{.job = options_.job,
                                       .server = options_.server,
                                       .servers = static_cast<int>(options_.servers.size()),
                                       .incarnation = options_.incarnation});
    return true;
  }
  if (phase_ == Phase::waiting) return false;
  if (snapshot_end_) return produce_piece(next);
  if (needs_snapshot_) {
    if (!state_) return false;
    needs_snapshot_ = false;
    take_snapshot();
    return produce_piece(next);
  }
  if (items_.empty() || sent_ >= items_.back().index) return false;
  COHORT_CHECK(sent_ + 1 >= items_.front().index, "record {} was dropped unsent", sent_ + 1);
  const QueuedRecord& item = items_[sent_ + 1 - items_.front().index];
  sent_ = item.index;
  next.control = encode(ReplicaRecord{item.index, item.record});
  payload_ = item.payload;
  next.bulk = reinterpret_cast<const std::byte*>(payload_->data());
  next.bulk_bytes = payload_->size();
  return true;
}

bool ReplicaLink::on_lost(std::exception_ptr why) {
  phase_ = Phase::waiting;
  in_step_ = false;
  try {
    std::rethrow_exception(why);
  } catch (const Error& error) {
    trouble_ = error.message();
  }
  return !replaced_;
}

void ReplicaLink::be_patient() {
  if (!patience_) patience_ = loop_.call_after(kPatience, [this] { watch(); });
}

void ReplicaLink::watch() {
  patience_.reset();
  if (items_.empty() && snapshot_waits_.empty()) return;
  auto since = Clock::time_point::max();
  if (!items_.empty()) since = items_.front().since;
  if (!snapshot_waits_.empty()) since = std::min(since, snapshot_waits_.front().since);
  if (const auto due = since + kPatience; Clock::now() < due) {
    patience_ = loop_.call_at(due, [this] { watch(); });
    return;
  }
  if (!std::exchange(warned_, true))
    log::warning("{} does not hold the copy of ps/{}{}{}; updates are not acknowledged meanwhile",
                 holder_, options_.server, trouble_.empty() ? "" : ": ", trouble_);
  be_patient();
}

}  // namespace

std::unique_ptr<UpdateLog> open_replica_link(EventLoop& loop, const ReplicaOptions& options) {
  return std::make_unique<ReplicaLink>(loop, options);
}

}  // namespace cohort::ps

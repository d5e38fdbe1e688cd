#include "cohort/ps/durable/replica_holder.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/ps/durable/replica_messages.h"
#include "cohort/ps/durable/replica_options.h"
#include "cohort/ps/state/replay.h"
#include "cohort/ps/state/state_snapshot.h"

namespace cohort::ps {

// One primary's connection.
class ReplicaHolder::Session final : public ConnectionOwner {
 public:
  Session(ReplicaHolder& holder, Connection& connection, std::string identity)
      : holder_(holder), connection_(connection), identity_(std::move(identity)) {}

  void opened(const std::string&) override {}
  std::optional<std::byte*> place(std::string_view control, std::size_t bulk_bytes) override;
  void received(std::string_view control, std::byte* bulk, std::size_t bulk_bytes,
                UniqueFd file) override;
  bool produce(Outgoing& next) override;

 private:
  void on_hello(const ReplicaHello& hello);
  std::string objection(const ReplicaHello& hello) const;
  void on_snapshot_end(const ReplicaImageEnd& end);
  void on_record(ReplicaRecord& record, std::span<const std::byte> payload);
  bool is_replaced();
  void refuse(bool replaced, std::string reason);
  void answer(const ReplicaMessage& message);

  ReplicaHolder& holder_;
  Connection& connection_;
  const std::string identity_;
  Copy* copy_ = nullptr;  // once it has said hello
  int primary_ = 0;
  std::uint64_t incarnation_ = 0;
  bool refused_ = false;

  std::deque<std::string> pieces_;  // of a snapshot that comes in
  std::uint64_t piece_bytes_ = 0;
  std::string payload_;  // of a record that comes in

  std::deque<std::string> answers_;     // control parts
  std::deque<std::string> fetched_;     // pieces that go out after the answers
  std::string piece_;                   // being written
  std::optional<ReplicaImageEnd> end_;  // after the last of them
  std::optional<std::uint64_t> acknowledge_;
};

std::optional<std::byte*> ReplicaHolder::Session::place(std::string_view control,
                                                        std::size_t bulk_bytes) {
  if (!copy_) throw ProtocolError(fmt::format("{} sent bytes before a hello", identity_));
  ReplicaMessage message = decode_replica_message(control);
  if (std::holds_alternative<ReplicaPiece>(message)) {
    piece_bytes_ = (pieces_.empty() ? 0 : piece_bytes_) + bulk_bytes;
    // A snapshot has a little more than the values, slots and rows that the limit counts.
    const std::uint64_t limit = holder_.options_.memory_limit;
    if (limit != 0 && piece_bytes_ > limit + limit / 2 + kMaxControlBytes)
      throw ProtocolError(fmt::format("{} sent a snapshot of more than {} bytes; the limit is {}",
                                      identity_, piece_bytes_, limit));
    return reinterpret_cast<std::byte*>(pieces_.emplace_back(bulk_bytes, '\0').data());
  }
  if (!std::holds_alternative<ReplicaRecord>(message))
    throw ProtocolError(fmt::format("{} sent bytes that belong to nothing", identity_));
  payload_.resize(bulk_bytes);
  return reinterpret_cast<std::byte*>(payload_.data());
}

void ReplicaHolder::Session::received(std::string_view control, std::byte* bulk,
                                      std::size_t bulk_bytes, UniqueFd) {
  ReplicaMessage message = decode_replica_message(control);
  auto* hello = std::get_if<ReplicaHello>(&message);
  if ((hello != nullptr) == (copy_ != nullptr))
    throw ProtocolError(fmt::format("{} sent a message out of turn", identity_));
  if (hello) return on_hello(*hello);
  if (refused_ || is_replaced()) {
    pieces_.clear();
    return;
  }
  if (auto* end = std::get_if<ReplicaImageEnd>(&message))
    on_snapshot_end(*end);
  else if (auto* record = std::get_if<ReplicaRecord>(&message))
    on_record(*record, {bulk, bulk_bytes});
  else if (!std::holds_alternative<ReplicaPiece>(message))
    throw ProtocolError(fmt::format("{} sent a message out of turn", identity_));
}

std::string ReplicaHolder::Session::objection(const ReplicaHello& hello) const {
  if (hello.version != kReplicaVersion)
    return fmt::format("it speaks version {}, this server {}", hello.version, kReplicaVersion);
  if (hello.job != holder_.options_.job) return "it belongs to another job";
  if (hello.servers != holder_.options_.servers)
    return fmt::format("it knows of {} servers, this one of {}", hello.servers,
                       holder_.options_.servers);
  if (hello.server < 0 || hello.server >= hello.servers ||
      identity_ != fmt::format("ps/{}", hello.server))
    return fmt::format("'{}' is not server {}", identity_, hello.server);
  if (replica_holder_of(hello.server, hello.servers) != holder_.options_.server)
    return fmt::format("server {} does not hold the copy of server {}", holder_.options_.server,
                       hello.server);
  return {};
}

void ReplicaHolder::Session::on_hello(const ReplicaHello& hello) {
  if (std::string why = objection(hello); !why.empty())
    throw ProtocolError(fmt::format("a hello of {} that does not fit: {}", identity_, why));
  primary_ = hello.server;
  incarnation_ = hello.incarnation;
  copy_ = &holder_.copies_[primary_];
  if (!hello.fetch) {
    if (is_replaced()) return;
    copy_->newest = incarnation_;
    answer(ReplicaWelcome{.has_copy = copy_->state != nullptr,
                          .incarnation = copy_->incarnation,
                          .applied = copy_->applied});
    return;
  }
  auto now = std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  copy_->newest = std::max(copy_->newest + 1, static_cast<std::uint64_t>(now));
  answer(ReplicaWelcome{.has_copy = copy_->state != nullptr, .incarnation = copy_->newest});
  if (!copy_->state) return;
  write_snapshot(*copy_->state, [&](std::string_view piece) { fetched_.emplace_back(piece); });
  end_ = ReplicaImageEnd{.index = copy_->applied, .pieces = fetched_.size()};
}

void ReplicaHolder::Session::on_snapshot_end(const ReplicaImageEnd& end) {
  if (end.pieces != pieces_.size())
    throw ProtocolError(fmt::format("{} sent {} pieces of a snapshot of {}", identity_,
                                    pieces_.size(), end.pieces));
  UniqueFd file(::memfd_create("cohort-ps-copy", MFD_CLOEXEC));
  if (!file) throw SystemError("cannot make memory for a copy", errno);
  std::unique_ptr<ServerState> state;
  try {
    state = state_from_snapshot(file.get(),
                                {.server = primary_,
                                 .servers = holder_.options_.servers,
                                 .memory_limit = holder_.options_.memory_limit},
                                [&]() -> std::optional<std::string> {
                                  if (pieces_.empty()) return std::nullopt;
                                  std::string piece = std::move(pieces_.front());
                                  pieces_.pop_front();
                                  return piece;
                                });
  } catch (const InvalidInput& error) {
    refuse(false, error.what());
    return;
  }
  pieces_.clear();
  copy_->state = std::move(state);
  copy_->file = std::move(file);
  copy_->incarnation = incarnation_;
  copy_->applied = end.index;
  acknowledge_ = end.index;
  connection_.wake();
}

void ReplicaHolder::Session::on_record(ReplicaRecord& message, std::span<const std::byte> payload) {
  if (!copy_->state || copy_->incarnation != incarnation_)
    throw ProtocolError(fmt::format("{} sent a record before a snapshot", identity_));
  if (message.index > copy_->applied + 1)
    throw ProtocolError(
        fmt::format("{} sent record {} after {}", identity_, message.index, copy_->applied));
  UpdateRecord& record = message.record;
  record.payload = payload;
  try {
    replay(*copy_->state, record);
  } catch (const ProtocolError& error) {
    throw ProtocolError(
        fmt::format("{} sent a record that does not fit: {}", identity_, error.message()));
  } catch (const InvalidInput& error) {
    refuse(false, error.what());
    return;
  }
  copy_->applied = std::max(copy_->applied, message.index);
  acknowledge_ = copy_->applied;
  connection_.wake();
}

bool ReplicaHolder::Session::is_replaced() {
  if (incarnation_ >= copy_->newest) return false;
  refuse(true, fmt::format("a newer process is ps/{} now", primary_));
  return true;
}

void ReplicaHolder::Session::refuse(bool replaced, std::string reason) {
  refused_ = true;
  log::warning("refused updates of {}: {}", identity_, reason);
  answer(ReplicaRefused{.replaced = replaced, .reason = std::move(reason)});
}

void ReplicaHolder::Session::answer(const ReplicaMessage& message) {
  answers_.push_back(encode(message));
  connection_.wake();
}

bool ReplicaHolder::Session::produce(Outgoing& next) {
  if (!answers_.empty()) {
    next.control = std::move(answers_.front());
    answers_.pop_front();
  } else if (!fetched_.empty()) {
    piece_ = std::move(fetched_.front());
    fetched_.pop_front();
    next.control = encode(ReplicaPiece{});
    next.bulk = reinterpret_cast<const std::byte*>(piece_.data());
    next.bulk_bytes = piece_.size();
  } else if (end_) {
    next.control = encode(*end_);
    end_.reset();
  } else if (acknowledge_) {
    next.control = encode(ReplicaAck{*acknowledge_});
    acknowledge_.reset();
  } else {
    return false;
  }
  return true;
}

std::unique_ptr<ConnectionOwner> ReplicaHolder::serve(Connection& connection,
                                                      std::string identity) {
  return std::make_unique<Session>(*this, connection, std::move(identity));
}

}  // namespace cohort::ps

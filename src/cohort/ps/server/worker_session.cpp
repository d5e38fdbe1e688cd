#include "cohort/ps/server/worker_session.h"

#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/net/socket.h"
#include "cohort/ps/durable/replica_messages.h"

namespace cohort::ps {

namespace {

// What a peer that was refused still sends is read and forgotten, so that the reason reaches it;
// more than this in one piece is not.
constexpr std::size_t kMaxForgotten = 16 << 20;

}  // namespace

WorkerSession::WorkerSession(Id id, const Connect& connect, SessionHost& host,
                             ReceiveBuffers& buffers)
    : id_(id),
      host_(host),
      buffers_(buffers),
      outbox_([this] {
        drained_ = false;
        connection_->wake();
        host_.has_output(*this);
      }),
      connection_(connect(*this)) {
  peer_ = connection_->is_unix() ? "this host" : peer_name(connection_->fd());
}

std::string WorkerSession::name() const {
  if (!hello_) return peer_;
  return fmt::format("worker/{} at {}", hello_->worker, peer_);
}

void WorkerSession::set_hello(const Hello& hello, UniqueFd region) {
  if (region) region_.emplace(std::move(region));
  hello_ = hello;
}

void WorkerSession::refuse(const std::string& reason, const std::string& advice) {
  if (is_refused()) return;
  log::warning("refused {}: {}", name(), reason);
  outbox_.close({true, reason, advice});
}

void WorkerSession::opened(const std::string& identity) { identity_ = identity; }

bool WorkerSession::is_replica(std::string_view control) {
  if (replica_ == nullptr && !hello_ && is_replica_message(control))
    replica_ = host_.serve_replica(*this, identity_);
  return replica_ != nullptr;
}

std::optional<std::byte*> WorkerSession::place(std::string_view control, std::size_t bulk_bytes) {
  if (is_replica(control)) return replica_->place(control, bulk_bytes);
  if (!is_refused()) try {
      host_.check(*this, decode_message(control), bulk_bytes);
    } catch (const Error& error) {
      refuse(error.message(), error.context().advice);
    }
  if (is_refused() && bulk_bytes > kMaxForgotten) return std::nullopt;
  incoming_ = buffers_.get(bulk_bytes);
  return incoming_.get();
}

void WorkerSession::received(std::string_view control, std::byte* bulk, std::size_t bulk_bytes,
                             UniqueFd file) {
  if (is_replica(control)) return replica_->received(control, bulk, bulk_bytes, std::move(file));
  const auto memory = std::exchange(incoming_, nullptr);
  if (is_refused()) return;
  try {
    Message message = decode_message(control);
    if (bulk_bytes == 0) host_.check(*this, message, 0);
    host_.handle(*this, std::move(message), {{bulk, bulk_bytes}, memory}, std::move(file));
  } catch (const Error& error) {
    refuse(error.message(), error.context().advice);
  }
}

bool WorkerSession::produce(Outgoing& next) {
  if (replica_ != nullptr ? replica_->produce(next) : outbox_.next(next)) return true;
  drained_ = true;
  return false;
}

}  // namespace cohort::ps

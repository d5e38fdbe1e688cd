#include "cohort/ps/client/server_link.h"

#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/net/socket.h"
#include "cohort/transport/shm/fd_passing.h"

namespace cohort::ps {

namespace {

// An invalid one where there is no such server on this host.
UniqueFd connect_unix(const std::string& name) {
  try {
    UniqueFd socket =
        connect_to(Endpoint::unix_abstract(name), Deadline::after(std::chrono::seconds(1)));
    // The server may have died since, and any process of this host may take its name.
    if (transport::shm::peer_is_same_user(socket.get())) return socket;
  } catch (const PeerError&) {
  }
  return {};
}

}  // namespace

ServerLink::ServerLink(ClientState& client, int server, EventLoop& loop, TlsContext* tls)
    : client_(client),
      state_(client, server),
      outbound_(state_),
      inbound_(state_),
      connector_(loop,
                 {.address = client.options.servers[static_cast<std::size_t>(server)],
                  .handshake = {.protocol = kProtocol,
                                .secret = client.options.secret,
                                .identity = client.worker_name()},
                  .tls = tls,
                  .attempt_limit = kHandshakeTimeout},
                 *this, [this](std::exception_ptr error) { return on_lost(error); }) {}

void ServerLink::forget_connection() {
  inbound_.connection_lost();
  std::lock_guard lock(client_.mutex);
  outbound_.connection_lost_locked();
  state_.connection_lost_locked();
}

// Whether to connect again.
bool ServerLink::on_lost(std::exception_ptr error) {
  forget_connection();
  std::string reason;
  try {
    std::rethrow_exception(error);
  } catch (const PeerError& lost) {
    reason = lost.message();
  } catch (const TimeoutError& late) {
    reason = late.message();
  } catch (const Error& wrong) {
    const bool is_auth = dynamic_cast<const AuthError*>(&wrong) != nullptr;
    const bool is_protocol = dynamic_cast<const ProtocolError*>(&wrong) != nullptr;
    // A server that proved itself is away: another process may have its port until it is back.
    if (!has_been_proven_ || !(is_auth || is_protocol)) {
      client_.fail(error);
      return false;
    }
    reason = wrong.message();
    if (is_protocol)
      log::warning("{}: {}; connecting again", client_.server_name(state_.server), reason);
  } catch (...) {
    client_.fail(error);
    return false;
  }
  std::lock_guard lock(client_.mutex);
  if (client_.failure) return false;
  state_.reason = reason;
  if (client_.begun) ++state_.losses;
  return true;
}

void ServerLink::reconnect() {
  close();
  connector_.connect();
}

void ServerLink::close() {
  connector_.close();
  forget_connection();
}

void ServerLink::opened(const std::string&) {
  has_been_proven_ = true;
  said_hello_ = false;
  local_name_ = LocalNameState::known;
  if (client_.options.shared_memory && !state_.is_remote() && !connector_.connection()->is_unix()) {
    local_name_ = LocalNameState::wanted;
    return;
  }
  enter();
}

void ServerLink::enter() {
  connector_.settled();
  std::lock_guard lock(client_.mutex);
  if (state_.reach == LinkState::Reach::unknown)
    state_.reach =
        connector_.connection()->is_unix() ? LinkState::Reach::local : LinkState::Reach::remote;
  state_.proven = true;
  client_.changed.notify_all();
}

std::optional<std::byte*> ServerLink::place(std::string_view control, std::size_t bulk_bytes) {
  return inbound_.place(decode_message(control), bulk_bytes);
}

void ServerLink::received(std::string_view control, std::byte*, std::size_t bulk_bytes,
                          UniqueFd file) {
  std::visit(
      [&](const auto& message) {
        using T = std::decay_t<decltype(message)>;
        if constexpr (std::is_same_v<T, Welcome>)
          on(message, std::move(file));
        else if constexpr (std::is_same_v<T, SliceState>)
          inbound_.on(message, bulk_bytes);
        else if constexpr (requires { inbound_.on(message); })
          inbound_.on(message);
        else if constexpr (requires { on(message); })
          on(message);
        else
          throw ProtocolError("a worker's message came from a server");
      },
      decode_message(control));
}

bool ServerLink::produce(Outgoing& next) {
  if (local_name_ == LocalNameState::wanted) {
    encode_into(AskLocalName{}, next.control);
    local_name_ = LocalNameState::asked;
    return true;
  }
  if (local_name_ == LocalNameState::asked) return false;
  return said_hello_ ? outbound_.produce(next) : produce_hello(next);
}

bool ServerLink::produce_hello(Outgoing& next) {
  std::lock_guard lock(client_.mutex);
  // The chief asks before it has a model; the others, when they are ready to wait for one.
  if (!client_.layout && !client_.options.chief) return false;
  encode_into(Hello{.worker = client_.options.worker,
                    .workers = client_.options.workers,
                    .server = state_.server,
                    .servers = client_.servers(),
                    .incarnation = client_.options.incarnation,
                    .process = client_.process,
                    .chief = client_.options.chief,
                    .wire = state_.wire()},
              next.control);
  if (state_.is_local()) next.file = state_.outbox.file();
  said_hello_ = true;
  return true;
}

// The server's own socket on this host takes the connection's place where it can be reached.
void ServerLink::on(const LocalName& message) {
  if (local_name_ != LocalNameState::asked)
    throw ProtocolError("a socket's name that was not asked for");
  if (!message.name.empty())
    if (UniqueFd socket = connect_unix(message.name))
      return connector_.replace_by(std::move(socket));
  if (state_.is_local()) throw PeerError("its Unix socket cannot be reached");
  local_name_ = LocalNameState::known;
  enter();
  connector_.wake();
}

void ServerLink::on(const Welcome& message, UniqueFd file) {
  std::shared_ptr<const SegmentReader> reader;
  if (message.initialised && file) reader = std::make_shared<SegmentReader>(std::move(file));
  connector_.wake();  // what waited for this
  connector_.reset_pause();
  std::lock_guard lock(client_.mutex);
  state_.welcome = true;
  client_.changed.notify_all();
  state_.lacks_model = !message.initialised;
  if (state_.lacks_model) {
    const std::uint64_t first = client_.initial != nullptr ? client_.initial->first_step : 0;
    if (client_.begun || state_.finished > first)
      client_.fail_locked(std::make_exception_ptr(
          Error(fmt::format("{} was started anew and has lost the model",
                            client_.server_name(state_.server)),
                {.task = client_.worker_name(),
                 .advice = "Choose a durability of `process` or more, or begin the training again "
                           "from its last checkpoint."})));
    return;
  }
  if (state_.is_local() && client_.layout && !reader)
    throw ProtocolError("a Welcome on this host came without the server's memory");
  if (client_.begun && message.spec != state_.spec)
    client_.fail_locked(std::make_exception_ptr(
        Error(fmt::format("{} now has another model", client_.server_name(state_.server)))));
  state_.ready = true;
  state_.finished = message.finished;
  state_.spec = message.spec;
  if (reader) state_.reader = std::move(reader);
  if (client_.begun) {
    ++client_.reconnects;
    log::info("connected to {} again", client_.server_name(state_.server));
  }
  if (client_.layout) outbound_.queue_again_locked();
}

void ServerLink::on(const Refused& message) {
  client_.fail(std::make_exception_ptr(
      Error(fmt::format("{} refused: {}", client_.server_name(state_.server), message.reason),
            {.task = client_.worker_name(), .advice = message.advice})));
}

}  // namespace cohort::ps

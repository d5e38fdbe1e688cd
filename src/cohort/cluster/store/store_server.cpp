#include "cohort/cluster/store/store_server.h"

#include <sys/epoll.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/log/rate_limited_log.h"
#include "cohort/base/net/acceptor.h"
#include "cohort/base/net/event_loop.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/process/limits.h"
#include "cohort/cluster/store/store_connection.h"

namespace cohort::cluster {
namespace {

constexpr std::chrono::seconds kGoodbyeTimeout{5};

}  // namespace

class StoreServer::Loop {
 public:
  explicit Loop(StoreServerOptions options);
  ~Loop() { close(); }

  const Address& address() const { return options_.bind; }
  std::size_t client_count() const;
  bool wait_for_clients_at_most(std::size_t count, Deadline deadline);
  void close();

 private:
  struct Client {
    StoreConnection connection;
    std::uint32_t events = 0;
    EventLoop::TimerId timer = 0;  // ends the handshake, later the goodbye
    bool is_dirty = false;
  };

  void run();
  void add_client(UniqueFd fd);
  void make_room(int newest);
  void on_event(StoreClientId id, std::uint32_t events);
  void serve(StoreClientId id, Client& client);
  void mark_dirty(StoreClientId id, Client& client);
  void settle();
  void update(StoreClientId id, Client& client);
  void drop(StoreClientId id, const std::string& reason, bool expected = false);
  void erase(StoreClientId id);
  void set_authenticated_count(std::size_t count);
  void schedule_expiry();

  StoreServerOptions options_;
  HandshakeOptions handshake_;
  EventLoop loop_;
  std::optional<Acceptor> acceptor_;
  RateLimitedLog refusals_{"the store", "connections refused"};
  StoreState state_;
  std::unordered_map<StoreClientId, Client> clients_;
  std::set<StoreClientId> unproven_;  // in order of arrival
  std::set<StoreClientId> silent_;    // of these, who has said nothing
  std::size_t max_unproven_ = 0;
  std::vector<StoreClientId> dirty_;  // with something to send or to read on
  StoreClientId next_id_ = 1;
  EventLoop::TimerId expiry_timer_ = 0;
  EventLoop::Clock::time_point expiry_ = EventLoop::Clock::time_point::max();

  mutable std::mutex mutex_;  // guards count_
  std::condition_variable count_changed_;
  std::size_t count_ = 0;
  std::mutex close_mutex_;
  std::thread thread_;
};

StoreServer::Loop::Loop(StoreServerOptions options)
    : options_(std::move(options)),
      state_(
          [this](StoreClientId id, StoreResponse response) {
            auto found = clients_.find(id);
            if (found == clients_.end()) return;
            found->second.connection.send(std::move(response));
            mark_dirty(id, found->second);
          },
          options_.limits) {
  UniqueFd listener = listen_on(Endpoint::tcp(options_.bind.host, options_.bind.port));
  Endpoint bound = local_endpoint(listener.get());
  options_.bind.port = bound.port();
  bool is_local = resolve(bound, Deadline::never()).front().is_loopback();
  if (!options_.secret && !is_local && !options_.insecure)
    throw InvalidInput(
        fmt::format("a store on {} without a secret would be open to the network",
                    bound.to_string()),
        {.advice = "Set COHORT_SECRET_FILE=FILE, bind to 127.0.0.1, or accept the risk with "
                   "COHORT_INSECURE=1."});
  handshake_ = {.protocol = kStoreProtocol, .secret = options_.secret, .identity = "store"};
  raise_file_limit(std::max<std::uint64_t>(options_.max_clients + 256, kWantedFiles));
  max_unproven_ = unauthenticated_limit();
  acceptor_.emplace(loop_, std::move(listener), "the store",
                    [this](UniqueFd fd) { add_client(std::move(fd)); });
  thread_ = std::thread([this] { run(); });
}

void StoreServer::Loop::run() {
  try {
    loop_.run();
  } catch (const std::exception& error) {
    log::error("the store on {} stopped: {}", to_string(options_.bind), error.what());
  }
  clients_.clear();
  acceptor_.reset();
  set_authenticated_count(0);
}

void StoreServer::Loop::close() {
  std::lock_guard lock(close_mutex_);
  if (!thread_.joinable()) return;
  loop_.stop();
  thread_.join();
}

std::size_t StoreServer::Loop::client_count() const {
  std::lock_guard lock(mutex_);
  return count_;
}

void StoreServer::Loop::set_authenticated_count(std::size_t count) {
  std::lock_guard lock(mutex_);
  count_ = count;
  count_changed_.notify_all();
}

bool StoreServer::Loop::wait_for_clients_at_most(std::size_t count, Deadline deadline) {
  std::unique_lock lock(mutex_);
  auto few = [&] { return count_ <= count; };
  if (!deadline.is_never()) return count_changed_.wait_until(lock, deadline.when(), few);
  count_changed_.wait(lock, few);
  return true;
}

// Of those that have not proven themselves one goes: the first that has said nothing, since a
// member speaks at once, else the first.
void StoreServer::Loop::make_room(int newest) {
  if (unproven_.empty()) return;
  if (clients_.size() < options_.max_clients && unproven_.size() < max_unproven_ &&
      !is_short_of_files(newest))
    return;
  StoreClientId oldest = silent_.empty() ? *unproven_.begin() : *silent_.begin();
  drop(oldest, "the store has too many connections");
  erase(oldest);
}

void StoreServer::Loop::add_client(UniqueFd fd) {
  make_room(fd.get());
  if (clients_.size() >= options_.max_clients) {
    refusals_.warning(fmt::format("turned {} away: it has {} clients already", peer_name(fd.get()),
                                  clients_.size()));
    return;
  }
  StoreClientId id = next_id_++;
  int number = fd.get();
  Client& client =
      clients_
          .try_emplace(id, Client{.connection = StoreConnection(std::move(fd), handshake_,
                                                                options_.max_queued_bytes)})
          .first->second;
  unproven_.insert(id);
  silent_.insert(id);
  client.events = EPOLLIN;
  client.timer = loop_.call_after(kHandshakeTimeout, [this, id] {
    drop(id, "it did not prove itself in time");
    settle();
  });
  loop_.add(number, client.events, [this, id](std::uint32_t events) { on_event(id, events); });
}

void StoreServer::Loop::on_event(StoreClientId id, std::uint32_t events) {
  auto found = clients_.find(id);
  if (found == clients_.end()) return;
  Client& client = found->second;
  silent_.erase(id);
  try {
    if (!client.connection.is_authenticated() || (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
      client.connection.read();
    mark_dirty(id, client);
  } catch (const PeerError& error) {
    drop(id, error.message(), true);
  } catch (const std::exception& error) {
    drop(id, error.what());
  }
  settle();
}

void StoreServer::Loop::mark_dirty(StoreClientId id, Client& client) {
  if (std::exchange(client.is_dirty, true)) return;
  dirty_.push_back(id);
}

// Takes the requests that have arrived and writes what is due.
void StoreServer::Loop::serve(StoreClientId id, Client& client) {
  StoreConnection& connection = client.connection;
  if (connection.is_authenticated() && unproven_.erase(id) > 0) {
    loop_.cancel(std::exchange(client.timer, 0));
    state_.connected(id, connection.identity());
    set_authenticated_count(client_count() + 1);
  }
  auto now = EventLoop::Clock::now();
  do {
    while (auto request = connection.next_request()) state_.handle(id, std::move(*request), now);
    connection.flush();
    // A flush may have made room for answers to requests that were held back.
  } while (connection.has_held_back_requests());
  if (connection.is_over_limit())
    throw ProtocolError(fmt::format("it left {} bytes unread", connection.queued_bytes()));
}

// Until nothing changes: serving one client may give others something to read.
void StoreServer::Loop::settle() {
  for (std::size_t i = 0; i < dirty_.size(); ++i) {
    StoreClientId id = dirty_[i];
    auto found = clients_.find(id);
    if (found == clients_.end()) continue;
    found->second.is_dirty = false;
    try {
      serve(id, found->second);
      update(id, found->second);
    } catch (const PeerError& error) {
      drop(id, error.message(), true);
    } catch (const std::exception& error) {
      drop(id, error.what());
    }
  }
  dirty_.clear();
  schedule_expiry();
}

void StoreServer::Loop::update(StoreClientId id, Client& client) {
  if (client.connection.is_saying_goodbye() && !client.connection.has_output()) {
    if (!client.connection.is_authenticated()) return erase(id);
    client.connection.end_output();
  }
  std::uint32_t wanted = client.connection.wanted_events();
  if (wanted == client.events) return;
  loop_.modify(client.connection.fd(), wanted);
  client.events = wanted;
}

void StoreServer::Loop::drop(StoreClientId id, const std::string& reason, bool expected) {
  auto found = clients_.find(id);
  if (found == clients_.end()) return;
  Client& client = found->second;
  bool was_unproven = unproven_.erase(id) > 0;
  silent_.erase(id);
  if (was_unproven)
    refusals_.warning(fmt::format("dropped {}: {}", client.connection.name(), reason));
  else if (expected)
    log::debug("the store lost {}: {}", client.connection.name(), reason);
  else
    log::warning("the store dropped {}: {}", client.connection.name(), reason);
  if (!was_unproven && !client.connection.is_saying_goodbye()) {
    set_authenticated_count(client_count() - 1);
    state_.disconnected(id);
  }
  if (expected || client.connection.is_saying_goodbye()) return erase(id);
  loop_.cancel(client.timer);
  client.timer = loop_.call_after(kGoodbyeTimeout, [this, id] { erase(id); });
  client.connection.say_goodbye(reason);
  mark_dirty(id, client);
}

void StoreServer::Loop::erase(StoreClientId id) {
  auto found = clients_.find(id);
  if (found == clients_.end()) return;
  loop_.cancel(found->second.timer);
  loop_.remove(found->second.connection.fd());
  clients_.erase(found);
}

void StoreServer::Loop::schedule_expiry() {
  auto next = state_.next_expiry().value_or(EventLoop::Clock::time_point::max());
  if (next == expiry_) return;
  loop_.cancel(expiry_timer_);
  expiry_ = next;
  if (next == EventLoop::Clock::time_point::max()) return;
  expiry_timer_ = loop_.call_at(next, [this] {
    expiry_ = EventLoop::Clock::time_point::max();
    state_.expire(EventLoop::Clock::now());
    settle();
  });
}

StoreServer::StoreServer(StoreServerOptions options)
    : loop_(std::make_unique<Loop>(std::move(options))) {}
StoreServer::~StoreServer() = default;
const Address& StoreServer::address() const { return loop_->address(); }
std::size_t StoreServer::client_count() const { return loop_->client_count(); }
bool StoreServer::wait_for_clients_at_most(std::size_t count, Deadline deadline) {
  return loop_->wait_for_clients_at_most(count, deadline);
}
void StoreServer::close() { loop_->close(); }

}  // namespace cohort::cluster

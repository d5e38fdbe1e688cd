#include "cohort/base/net/http_server.h"

#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/log/rate_limited_log.h"
#include "cohort/base/net/acceptor.h"
#include "cohort/base/net/event_loop.h"
#include "cohort/base/net/http_connection.h"
#include "cohort/base/net/peer_user.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/net/tls_certificates.h"
#include "cohort/base/process/limits.h"

namespace cohort {
namespace {

using Phase = HttpConnection::Phase;

constexpr int kOverloaded = 503;
// How long a peer may go on sending after its answer.
constexpr std::chrono::milliseconds kEndingTime{500};

// The file of a Unix socket whose server is gone.
void remove_stale_socket(const Endpoint& bind) {
  struct stat status;
  if (bind.kind() != Endpoint::Kind::unix_path || ::lstat(bind.path().c_str(), &status) != 0 ||
      !S_ISSOCK(status.st_mode) || status.st_uid != ::geteuid())
    return;
  try {
    connect_to(bind, Deadline::after(std::chrono::seconds(1)));
  } catch (const PeerError&) {
    ::unlink(bind.path().c_str());
  } catch (const TimeoutError&) {  // a server is there, and has much to do
  }
}

// One place to listen, while the server lives.
struct OpenListener {
  OpenListener(HttpListener from, std::size_t number) : listener(std::move(from)), index(number) {
    if (listener.tls) tls.emplace(listener.tls->certificate, listener.tls->key);
    remove_stale_socket(listener.bind);
    socket = listen_on(listener.bind);
    port = listener.bind.is_tcp() ? local_endpoint(socket.get()).port() : 0;
    has_file = listener.bind.kind() == Endpoint::Kind::unix_path;
  }
  ~OpenListener() { remove_file(); }
  OpenListener(const OpenListener&) = delete;
  OpenListener& operator=(const OpenListener&) = delete;

  void remove_file() {
    if (std::exchange(has_file, false)) ::unlink(listener.bind.path().c_str());
  }
  HttpPeer peer_of(int fd) const {
    HttpPeer peer{.address = "unix", .is_tls = tls.has_value(), .listener = index};
    if (listener.bind.is_tcp())
      peer.address = peer_name(fd);
    else
      peer.user = unix_peer_user(fd);
    return peer;
  }
  std::unique_ptr<Channel> channel_of(UniqueFd fd) const {
    return tls ? tls->make_channel(std::move(fd)) : make_plain_channel(std::move(fd));
  }

  HttpListener listener;
  std::size_t index;
  std::optional<TlsServerContext> tls;
  UniqueFd socket;  // the acceptor's, later
  int port = 0;
  bool has_file = false;
};

}  // namespace

class HttpServer::Loop {
 public:
  Loop(std::vector<HttpListener> listeners, const HttpLimits& limits, HttpHandlers handlers)
      : limits_(limits),
        handlers_(std::move(handlers)),
        refusals_(handlers_.name, "connections refused") {
    raise_file_limit(kWantedFiles);
    limits_.connections = std::min(limits_.connections, unauthenticated_limit());
    for (HttpListener& listener : listeners) listen(std::move(listener));
    waker_->loop = &loop_;
    thread_ = std::thread([this] { run(); });
  }
  ~Loop() { close(); }

  int port(std::size_t listener) const {
    std::lock_guard lock(listeners_mutex_);
    return listeners_.at(listener).port;
  }

  // Before the thread runs, or on it.
  std::size_t listen(HttpListener listener) {
    std::lock_guard lock(listeners_mutex_);
    OpenListener& open = listeners_.emplace_back(std::move(listener), listeners_.size());
    try {
      acceptors_.emplace_back(loop_, std::move(open.socket), handlers_.name,
                              [this, &open](UniqueFd fd) { add(open, std::move(fd)); });
    } catch (...) {
      listeners_.pop_back();
      throw;
    }
    return open.index;
  }

  void close() {
    std::lock_guard lock(close_mutex_);
    if (!thread_.joinable()) return;
    loop_.stop();
    thread_.join();
    std::lock_guard waker_lock(waker_->mutex);
    waker_->loop = nullptr;
  }

 private:
  using Id = std::uint64_t;  // in order of arrival
  struct Client {
    std::unique_ptr<HttpConnection> connection;
    std::size_t pending = 0;  // as counted in pending_
    std::uint32_t events = EPOLLIN;
    // What `timer` measures: since when, and what had been moved then.
    Phase phase = Phase::over;
    int served = 0;
    std::uint64_t moved = 0;
    EventLoop::TimerId timer = 0;
    EventLoop::TimerId poll_timer = 0;
  };
  // What the requests' `wake` reach this server by, as long as it is there.
  struct Waker {
    std::mutex mutex;
    EventLoop* loop = nullptr;
  };

  void run() {
    try {
      loop_.run();
    } catch (const std::exception& error) {
      log::error("{} stopped: {}", handlers_.name, error.what());
    }
    // Before it stops to listen: another server may take the path over then.
    for (OpenListener& listener : listeners_) listener.remove_file();
    acceptors_.clear();
    clients_.clear();
  }

  void add(const OpenListener& from, UniqueFd fd) {
    HttpPeer peer;
    try {
      peer = from.peer_of(fd.get());
      if (from.listener.admit) from.listener.admit(fd.get());
    } catch (const Error& error) {
      refusals_.warning(fmt::format("refused {}: {}", peer.address, error.what()));
      return;
    }
    if (!clients_.empty() &&
        (clients_.size() >= limits_.connections || is_short_of_files(fd.get())))
      drop_one();
    const Id id = next_id_++;
    const int number = fd.get();
    Client client{.connection = std::make_unique<HttpConnection>(from.channel_of(std::move(fd)),
                                                                 std::move(peer), limits_,
                                                                 handlers_, wake_of(id))};
    loop_.add(number, client.events, [this, id](std::uint32_t events) { serve(id, events); });
    settle(id, clients_.emplace(id, std::move(client)).first->second);
  }

  // The oldest, of those that neither follow a stream, nor send a long body, nor wait for a later
  // answer if there is one.
  void drop_one() {
    refusals_.warning("dropped the oldest connection: there are too many");
    const auto found = std::ranges::find_if(clients_, [](const auto& item) {
      const Phase phase = item.second.connection->phase();
      return phase != Phase::stream && phase != Phase::upload && phase != Phase::thinking;
    });
    erase(found != clients_.end() ? found->first : clients_.begin()->first);
  }

  // Wakes that come before the last one was seen to are one.
  std::function<void()> wake_of(Id id) {
    return [this, id, waker = waker_, is_due = std::make_shared<std::atomic<bool>>(false)] {
      if (is_due->exchange(true)) return;
      std::lock_guard lock(waker->mutex);
      if (waker->loop == nullptr) return;
      waker->loop->post([this, id, is_due] {
        is_due->exchange(false);  // sees what was done before the wakes that it stands for
        with(id, [](HttpConnection& connection) { connection.wake(); });
      });
    };
  }

  void serve(Id id, std::uint32_t events) {
    with(id, [events](HttpConnection& connection) { connection.advance(events); });
  }

  // Lets the connection do something, unless it is gone, and sees to what follows.
  template <typename Act>
  void with(Id id, Act&& act) {
    const auto found = clients_.find(id);
    if (found == clients_.end()) return;
    Client& client = found->second;
    try {
      act(*client.connection);
      count(client);
      // Past the limit, a request with a body pays; a small request is served.
      if (pending_ > limits_.pending && client.pending > 2 * limits_.head &&
          client.connection->phase() == Phase::request)
        client.connection->refuse(kOverloaded);
    } catch (const Error& error) {
      refusals_.warning(
          fmt::format("lost {}: {}", client.connection->peer().address, error.what()));
      return erase(id);
    }
    settle(id, client);
    while (pending_ > limits_.pending && drop_unread()) continue;
  }

  // The largest answer that is not being taken. False: there is none.
  bool drop_unread() {
    auto worst = clients_.end();
    for (auto it = clients_.begin(); it != clients_.end(); ++it)
      if (it->second.connection->phase() == Phase::answer &&
          (worst == clients_.end() || it->second.pending > worst->second.pending))
        worst = it;
    if (worst == clients_.end()) return false;
    refusals_.warning("dropped an answer that is not taken: too much is kept for readers");
    erase(worst->first);
    return true;
  }

  void settle(Id id, Client& client) {
    const HttpConnection& connection = *client.connection;
    count(client);
    const Phase phase = connection.phase();
    if (phase == Phase::over) return erase(id);
    const std::uint32_t wanted = connection.wanted_events();
    if (wanted != std::exchange(client.events, wanted)) loop_.modify(connection.fd(), wanted);
    if (phase != client.phase || connection.served() != client.served) restart_clock(id, client);
    loop_.cancel(client.poll_timer);
    if (connection.is_waiting())
      client.poll_timer = loop_.call_after(connection.poll(), [this, id] {
        with(id, [](HttpConnection& waiting) { waiting.wake(); });
      });
    if (connection.is_busy()) loop_.post([this, id] { serve(id, EPOLLIN); });
  }

  void restart_clock(Id id, Client& client) {
    client.phase = client.connection->phase();
    client.served = client.connection->served();
    client.moved = client.connection->moved();
    loop_.cancel(client.timer);
    client.timer = loop_.call_after(time_of(client.phase), [this, id] { expire(id); });
  }

  std::chrono::milliseconds time_of(Phase phase) const {
    switch (phase) {
      case Phase::idle:
        return limits_.idle;
      case Phase::upload:
      case Phase::thinking:
      case Phase::stream:
        return limits_.stall;
      case Phase::ending:
        return kEndingTime;
      default:
        return limits_.time;
    }
  }

  void expire(Id id) {
    Client& client = clients_.at(id);
    const HttpConnection& connection = *client.connection;
    const bool is_long = client.phase == Phase::upload || client.phase == Phase::stream;
    const bool has_nothing = connection.is_waiting() && !connection.has_output();
    const bool may_go_on = is_long && (connection.moved() != client.moved || has_nothing);
    may_go_on ? restart_clock(id, client) : erase(id);
  }

  void count(Client& client) {
    const std::size_t now = client.connection->pending();
    pending_ = pending_ - std::exchange(client.pending, now) + now;
  }

  void erase(Id id) {
    const auto found = clients_.find(id);
    if (found == clients_.end()) return;
    pending_ -= found->second.pending;
    loop_.cancel(found->second.timer);
    loop_.cancel(found->second.poll_timer);
    loop_.remove(found->second.connection->fd());
    clients_.erase(found);
  }

  HttpLimits limits_;
  HttpHandlers handlers_;
  RateLimitedLog refusals_;
  EventLoop loop_;
  mutable std::mutex listeners_mutex_;
  std::deque<OpenListener> listeners_;  // grows on the loop's thread, under the mutex
  std::deque<Acceptor> acceptors_;
  std::map<Id, Client> clients_;
  std::size_t pending_ = 0;
  Id next_id_ = 1;
  const std::shared_ptr<Waker> waker_ = std::make_shared<Waker>();
  std::mutex close_mutex_;
  std::thread thread_;
};

HttpServer::HttpServer(std::vector<HttpListener> listeners, std::string name,
                       const HttpLimits& limits, Handler handler, OnHead on_head)
    : loop_(std::make_unique<Loop>(std::move(listeners), limits,
                                   HttpHandlers{.handle = std::move(handler),
                                                .on_head = std::move(on_head),
                                                .name = std::move(name)})) {}
HttpServer::~HttpServer() = default;
int HttpServer::port(std::size_t listener) const { return loop_->port(listener); }
std::size_t HttpServer::listen(HttpListener listener) { return loop_->listen(std::move(listener)); }
void HttpServer::close() { loop_->close(); }

}  // namespace cohort

#include "cohort/base/net/http_server.h"

#include <sys/epoll.h>

#include <algorithm>
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
#include "cohort/base/net/socket.h"
#include "cohort/base/process/limits.h"

namespace cohort {
namespace {

constexpr int kInternalError = 500, kOverloaded = 503;
// How long a peer may go on sending after its answer.
constexpr std::chrono::milliseconds kEndingTime{500};

}  // namespace

class HttpServer::Loop {
 public:
  Loop(std::vector<HttpListener> listeners, std::string name, const HttpLimits& limits,
       Handler handler)
      : name_(std::move(name)),
        limits_(limits),
        handler_(std::move(handler)),
        refusals_(name_, "connections refused") {
    raise_file_limit(kWantedFiles);
    limits_.connections = std::min(limits_.connections, unauthenticated_limit());
    for (HttpListener& listener : listeners) {
      UniqueFd fd = listen_on(listener.bind);
      ports_.push_back(local_endpoint(fd.get()).port());
      acceptors_.emplace_back(loop_, std::move(fd), name_,
                              [this, admit = std::move(listener.admit)](UniqueFd socket) {
                                add(std::move(socket), admit);
                              });
    }
    thread_ = std::thread([this] { run(); });
  }
  ~Loop() { close(); }

  int port(std::size_t listener) const { return ports_.at(listener); }

  void close() {
    std::lock_guard lock(close_mutex_);
    if (!thread_.joinable()) return;
    loop_.stop();
    thread_.join();
  }

 private:
  using Id = std::uint64_t;  // in order of arrival
  struct Client {
    std::unique_ptr<HttpConnection> connection;
    std::size_t pending = 0;  // as counted in pending_
    std::uint32_t events = EPOLLIN;
    EventLoop::TimerId timer = 0;
  };

  void run() {
    try {
      loop_.run();
    } catch (const std::exception& error) {
      log::error("{} stopped: {}", name_, error.what());
    }
    acceptors_.clear();
    clients_.clear();
  }

  void add(UniqueFd fd, const HttpListener::Admit& admit) {
    try {
      if (admit) admit(fd.get());
    } catch (const Error& error) {
      refusals_.warning(fmt::format("refused {}: {}", peer_name(fd.get()), error.what()));
      return;
    }
    if (!clients_.empty() &&
        (clients_.size() >= limits_.connections || is_short_of_files(fd.get()))) {
      refusals_.warning("dropped the oldest connection: there are too many");
      erase(clients_.begin()->first);
    }
    const Id id = next_id_++;
    const int number = fd.get();
    Client client{.connection = std::make_unique<HttpConnection>(std::move(fd), limits_)};
    loop_.add(number, client.events, [this, id](std::uint32_t events) { serve(id, events); });
    client.timer = loop_.call_after(limits_.time, [this, id] { erase(id); });
    clients_.emplace(id, std::move(client));
  }

  void serve(Id id, std::uint32_t events) {
    Client& client = clients_.at(id);
    HttpConnection& connection = *client.connection;
    const bool is_due = connection.advance(events);
    count(client);
    // Past the limit, a request with a body pays; a small request is served.
    const bool is_too_much =
        pending_ > limits_.pending && client.pending > 2 * limits_.head && connection.is_reading();
    if (is_due || is_too_much) answer(id, client, is_due);
    count(client);
    if (connection.is_over()) return erase(id);
    const std::uint32_t wanted = connection.wanted_events();
    if (wanted == std::exchange(client.events, wanted)) return;
    loop_.modify(connection.fd(), wanted);
  }

  void answer(Id id, Client& client, bool is_due) {
    HttpConnection& connection = *client.connection;
    if (!is_due) {
      connection.answer({.status = kOverloaded, .body = "too much to do\n", .type = "text/plain"});
    } else if (connection.has_mistake()) {
      connection.answer(connection.mistake());
    } else {
      connection.answer(handle(connection.take_request()));
    }
    loop_.cancel(client.timer);
    client.timer = loop_.call_after(connection.has_output() ? limits_.time : kEndingTime,
                                    [this, id] { erase(id); });
  }

  HttpResponse handle(HttpRequest request) {
    try {
      return handler_(std::move(request));
    } catch (const std::exception& error) {
      log::warning("{} could not answer: {}", name_, error.what());
      return {.status = kInternalError, .body = "internal error\n", .type = "text/plain"};
    }
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
    loop_.remove(found->second.connection->fd());
    clients_.erase(found);
  }

  std::string name_;
  HttpLimits limits_;
  Handler handler_;
  RateLimitedLog refusals_;
  std::vector<int> ports_;
  EventLoop loop_;
  std::deque<Acceptor> acceptors_;
  std::map<Id, Client> clients_;
  std::size_t pending_ = 0;
  Id next_id_ = 1;
  std::mutex close_mutex_;
  std::thread thread_;
};

HttpServer::HttpServer(std::vector<HttpListener> listeners, std::string name,
                       const HttpLimits& limits, Handler handler, OnHead)
    : loop_(std::make_unique<Loop>(std::move(listeners), std::move(name), limits,
                                   std::move(handler))) {}
HttpServer::~HttpServer() = default;
int HttpServer::port(std::size_t listener) const { return loop_->port(listener); }
void HttpServer::close() { loop_->close(); }

}  // namespace cohort

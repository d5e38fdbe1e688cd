#include "cohort/cluster/horovod_rendezvous.h"

#include <httplib.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "cohort/base/error.h"

namespace cohort::cluster {
namespace {

constexpr int kThreads = 16;
constexpr int kBacklog = 4096;
constexpr int kOk = 200, kNotFound = 404, kTooLarge = 413, kFull = 507;

// The scopes in which a DELETE means "finished", not "remove".
bool is_horovod_scope(const std::string& scope) {
  return scope == "global" || scope.starts_with("local_") || scope.starts_with("cross_");
}

// Thread-safe.
class Scopes {
 public:
  explicit Scopes(std::size_t max_total) : max_total_(max_total) {}

  std::optional<std::string> get(const std::string& scope, const std::string& key) const {
    std::lock_guard lock(mutex_);
    auto found = scopes_.find(scope);
    if (found == scopes_.end()) return std::nullopt;
    auto value = found->second.values.find(key);
    if (value == found->second.values.end()) return std::nullopt;
    return value->second;
  }

  bool put(const std::string& scope, const std::string& key, std::string value) {
    std::lock_guard lock(mutex_);
    std::size_t overhead = scope.size() + key.size();
    auto& values = scopes_[scope].values;
    auto found = values.find(key);
    std::size_t before = found == values.end() ? 0 : overhead + found->second.size();
    if (total_ - before + overhead + value.size() > max_total_) return false;
    total_ = total_ - before + overhead + value.size();
    values[key] = std::move(value);
    return true;
  }

  void remove(const std::string& scope, const std::string& key) {
    std::lock_guard lock(mutex_);
    auto found = scopes_.find(scope);
    if (found == scopes_.end()) return;
    auto& [values, finished] = found->second;
    if (!is_horovod_scope(scope)) {
      if (auto value = values.find(key); value != values.end()) erase(scope, values, value);
    } else if (finished.insert(key).second && finished.size() >= values.size()) {
      while (!values.empty()) erase(scope, values, values.begin());
    }
    if (values.empty()) scopes_.erase(found);
  }

 private:
  using Values = std::map<std::string, std::string>;
  struct Scope {
    Values values;
    std::set<std::string> finished;  // who has found all its peers
  };
  void erase(const std::string& scope, Values& values, Values::iterator entry) {
    total_ -= scope.size() + entry->first.size() + entry->second.size();
    values.erase(entry);
  }

  mutable std::mutex mutex_;
  std::map<std::string, Scope> scopes_;
  std::size_t total_ = 0;
  std::size_t max_total_;
};

}  // namespace

class HorovodRendezvous::Server : private httplib::Server {
 public:
  explicit Server(HorovodRendezvousOptions options)
      : options_(std::move(options)), scopes_(options_.max_total) {
    route();
    new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    set_payload_max_length(options_.max_value);
    // One request a connection, and little patience: close() waits for requests under way.
    set_keep_alive_max_count(1);
    set_keep_alive_timeout(1);
    set_read_timeout(std::chrono::seconds(2));
    set_write_timeout(std::chrono::seconds(2));
    // The library's default would let a second server share the port unnoticed.
    set_socket_options([](socket_t fd) {
      int on = 1;
      ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    });
    bind();
    start();
  }
  ~Server() override { close(); }

  const Address& address() const { return options_.bind; }

  void close() {
    std::lock_guard lock(close_mutex_);
    if (!thread_.joinable()) return;
    stop();
    thread_.join();
  }

 private:
  void route() {
    const std::string path = "/([^/]+)/(.+)";
    Get(path, [this](const httplib::Request& request, httplib::Response& response) {
      auto value = scopes_.get(request.matches[1], request.matches[2]);
      response.status = value ? kOk : kNotFound;
      response.set_content(value.value_or(""), "application/octet-stream");
    });
    Put(path, [this](const httplib::Request& request, httplib::Response& response,
                     const httplib::ContentReader& read) { put(request, response, read); });
    Delete(path, [this](const httplib::Request& request, httplib::Response& response) {
      scopes_.remove(request.matches[1], request.matches[2]);
      response.status = kOk;
    });
  }

  void put(const httplib::Request& request, httplib::Response& response,
           const httplib::ContentReader& read) {
    std::string scope = request.matches[1], key = request.matches[2], value;
    bool is_complete = read([&](const char* data, std::size_t size) {
      if (value.size() + size > options_.max_value) return false;
      value.append(data, size);
      return true;
    });
    if (!is_complete || scope.size() > options_.max_key || key.size() > options_.max_key)
      response.status = kTooLarge;
    else
      response.status = scopes_.put(scope, key, std::move(value)) ? kOk : kFull;
  }

  void bind() {
    errno = 0;
    if (options_.bind.port == 0)
      options_.bind.port = bind_to_any_port(options_.bind.host);
    else if (!bind_to_port(options_.bind.host, options_.bind.port))
      options_.bind.port = -options_.bind.port;
    if (options_.bind.port <= 0)
      throw SystemError(fmt::format("cannot listen on {} for Horovod's rendezvous",
                                    to_string(Address{options_.bind.host, -options_.bind.port})),
                        errno ? errno : EADDRNOTAVAIL,
                        {.advice = "Choose another port, or 0 for any that is free."});
    ::listen(svr_sock_, kBacklog);  // the library's own backlog is 5
  }

  void start() {
    thread_ = std::thread([this] {
      listen_after_bind();
      ended_ = true;
    });
    // stop() has no effect on a server that does not run yet.
    while (!is_running() && !ended_) std::this_thread::yield();
  }

  HorovodRendezvousOptions options_;
  Scopes scopes_;
  std::atomic<bool> ended_ = false;
  std::mutex close_mutex_;
  std::thread thread_;
};

HorovodRendezvous::HorovodRendezvous(HorovodRendezvousOptions options)
    : server_(std::make_unique<Server>(std::move(options))) {}
HorovodRendezvous::~HorovodRendezvous() = default;
const Address& HorovodRendezvous::address() const { return server_->address(); }
void HorovodRendezvous::close() { server_->close(); }

}  // namespace cohort::cluster

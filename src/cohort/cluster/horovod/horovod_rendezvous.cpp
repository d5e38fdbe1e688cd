#include "cohort/cluster/horovod/horovod_rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/net/http_server.h"
#include "cohort/base/net/peer_user.h"

namespace cohort::cluster {
namespace {

constexpr int kNotFound = 404, kNotAllowed = 405, kTooLarge = 413, kFull = 507;
// What an entry costs beside its text, so that many small ones are bounded too.
constexpr std::size_t kEntryCost = 256;

// The scopes in which a DELETE means "finished", not "remove".
bool is_horovod_scope(const std::string& scope) {
  return scope == "global" || scope.starts_with("local_") || scope.starts_with("cross_");
}

struct ScopeAndKey {
  std::string scope, key;
};

// "/scope/key"; both empty when it is something else.
ScopeAndKey split_target(std::string_view target) {
  target = target.substr(0, target.find('?'));
  if (!target.starts_with('/')) return {};
  const std::size_t slash = target.find('/', 1);
  if (slash == 1 || slash == target.npos || slash + 1 == target.size()) return {};
  return {std::string(target.substr(1, slash - 1)), std::string(target.substr(slash + 1))};
}

// Only a process of this user may write where the job's ranks look each other up.
void admit_same_user(int fd) {
  const auto user = tcp_peer_user(fd);
  if (!user) throw AuthError("no process of this machine answers for the connection");
  if (*user != ::geteuid())
    throw AuthError(fmt::format("it is user {}'s, and the job is user {}'s", *user, ::geteuid()));
}

}  // namespace

// Confined to the server's thread.
class HorovodRendezvous::Server {
 public:
  explicit Server(HorovodRendezvousOptions options)
      : options_(std::move(options)),
        server_({{.bind = checked(options_.bind), .admit = admit_same_user}},
                "Horovod's rendezvous",
                {.head = 8 * 1024 + 2 * options_.max_key,
                 .body = options_.max_value,
                 .pending = std::max(std::size_t{8} << 20, 2 * options_.max_value),
                 .connections = options_.max_connections,
                 .time = options_.request_time},
                [this](HttpRequest request) { return answer(std::move(request)); }) {
    options_.bind.port = server_.port();
  }

  const Address& address() const { return options_.bind; }
  void close() { server_.close(); }

 private:
  struct Value {
    std::string bytes;
    bool is_finished = false;  // its rank has found all its peers
  };
  using Values = std::map<std::string, Value>;
  using Scopes = std::map<std::string, Values>;

  static Endpoint checked(const Address& bind) {
    if (!is_loopback(bind.host))
      throw InvalidInput(
          fmt::format("Horovod's rendezvous on {} would be open to the network", to_string(bind)),
          {.advice = "Bind it to 127.0.0.1."});
    return Endpoint::tcp(bind.host, bind.port);
  }

  HttpResponse answer(HttpRequest request) {
    const auto [scope, key] = split_target(request.target);
    if (scope.empty()) return {.status = kNotFound};
    if (scope.size() > options_.max_key || key.size() > options_.max_key)
      return {.status = kTooLarge};
    if (request.method == "GET") return get(scope, key);
    if (request.method == "PUT") return put(scope, key, std::move(request.body));
    if (request.method == "DELETE") return remove(scope, key);
    return {.status = kNotAllowed};
  }

  HttpResponse get(const std::string& scope, const std::string& key) const {
    const auto found = scopes_.find(scope);
    if (found == scopes_.end()) return {.status = kNotFound};
    const auto value = found->second.find(key);
    if (value == found->second.end()) return {.status = kNotFound};
    return {.body = value->second.bytes};
  }

  // What is refused leaves nothing behind, not even an empty scope.
  HttpResponse put(const std::string& scope, const std::string& key, std::string bytes) {
    const auto found = scopes_.find(scope);
    std::size_t before = 0;
    if (found != scopes_.end())
      if (const auto value = found->second.find(key); value != found->second.end())
        before = cost(scope, *value);
    const std::size_t after = kEntryCost + scope.size() + key.size() + bytes.size();
    if (total_ - before + after > options_.max_total) return {.status = kFull};
    total_ = total_ - before + after;
    bytes.shrink_to_fit();
    scopes_[scope].insert_or_assign(key, Value{.bytes = std::move(bytes)});
    return {};
  }

  HttpResponse remove(const std::string& scope, const std::string& key) {
    const auto found = scopes_.find(scope);
    if (found == scopes_.end()) return {};
    Values& values = found->second;
    const auto value = values.find(key);
    if (value == values.end()) return {};
    if (!is_horovod_scope(scope)) {
      erase(scope, values, value);
    } else {
      value->second.is_finished = true;
      if (std::ranges::all_of(values, [](const auto& item) { return item.second.is_finished; }))
        while (!values.empty()) erase(scope, values, values.begin());
    }
    if (values.empty()) scopes_.erase(found);
    return {};
  }

  static std::size_t cost(const std::string& scope, const Values::value_type& entry) {
    return kEntryCost + scope.size() + entry.first.size() + entry.second.bytes.size();
  }

  void erase(const std::string& scope, Values& values, Values::iterator entry) {
    total_ -= cost(scope, *entry);
    values.erase(entry);
  }

  HorovodRendezvousOptions options_;
  Scopes scopes_;
  std::size_t total_ = 0;
  HttpServer server_;  // last: its thread uses the others
};

HorovodRendezvous::HorovodRendezvous(HorovodRendezvousOptions options)
    : server_(std::make_unique<Server>(std::move(options))) {}
HorovodRendezvous::~HorovodRendezvous() = default;
const Address& HorovodRendezvous::address() const { return server_->address(); }
void HorovodRendezvous::close() { server_->close(); }

}  // namespace cohort::cluster

#include "cohort/engine/kubernetes/kube_client.h"

#include <poll.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::engine::kubernetes {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{100}, kLongestPause{3000}, kLongestRetryAfter{30'000};
constexpr std::chrono::seconds kOneTry{10};
constexpr std::size_t kMostAnswer = std::size_t{64} << 20;

HttpClientOptions options_for(const ClusterAccess& access, const HttpCancel* cancel) {
  HttpClientOptions options = HttpClientOptions::at(access.server);
  if (!options.tls && access.token)
    throw InvalidInput(
        fmt::format("the API server is {}: a token would be sent in the clear", access.server),
        {.advice = "Use https://."});
  options.ca_file = access.ca_file;
  options.certificate = access.certificate;
  options.key = access.key;
  options.cancel = cancel;
  return options;
}

bool is_worth_another_try(int status) {
  return status == 401 || status == 408 || status == 429 || status >= 500;
}

std::optional<milliseconds> retry_after(const HttpHeaders& headers) {
  const std::string* text = find_header(headers, "retry-after");
  const auto seconds = text ? parse_unsigned(*text) : std::nullopt;
  if (!seconds) return std::nullopt;
  return std::min<milliseconds>(kLongestRetryAfter, milliseconds(*seconds * 1000));
}

}  // namespace

std::string KubeAnswer::message() const {
  const std::string said =
      body.is_object() && body.contains("message") && body.at("message").is_string()
          ? body.at("message").get<std::string>()
          : "no reason was given";
  return fmt::format("{} ({})", escape_controls(said.substr(0, 500)), status);
}

std::string percent_encoded(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain)
      result += c;
    else
      result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return result;
}

KubeClient::KubeClient(ClusterAccess access, const HttpCancel* cancel, OnTrouble on_trouble)
    : access_(std::move(access)),
      cancel_(cancel),
      on_trouble_(std::move(on_trouble)),
      client_(options_for(access_, cancel)) {}

HttpCall KubeClient::request(const std::string& method, const std::string& path) const {
  HttpCall call{.method = method, .target = access_.prefix + path};
  call.headers.emplace_back("Accept", "application/json");
  if (access_.token) {
    const std::string token = access_.token();
    if (!token.empty()) call.headers.emplace_back("Authorization", "Bearer " + token);
  }
  return call;
}

void pause(const HttpCancel* cancel, milliseconds time) {
  if (cancel == nullptr) return std::this_thread::sleep_for(time);
  pollfd place{cancel->fd(), POLLIN, 0};
  ::poll(&place, 1, static_cast<int>(time.count()));
  if (cancel->is_cancelled()) throw HttpCancelled("the call was cancelled");
}

KubeAnswer KubeClient::call(const std::string& method, const std::string& path,
                            const std::string& body, Deadline deadline,
                            const std::string& type) const {
  milliseconds wait = kFirstPause;
  while (true) {
    std::string met;
    std::optional<milliseconds> asked_wait;
    try {
      HttpCall one = request(method, path);
      if (!body.empty()) {
        one.headers.emplace_back("Content-Type", type);
        one.body = body;
      }
      const auto limit = std::min(deadline.when(), Deadline::Clock::now() + kOneTry);
      const HttpReply reply = client_.call(one, Deadline::at(limit), kMostAnswer);
      KubeAnswer answer{reply.status,
                        nlohmann::json::parse(reply.body, nullptr, /*allow_exceptions=*/false)};
      if (answer.body.is_discarded()) answer.body = nullptr;
      if (!is_worth_another_try(answer.status)) return answer;
      met = answer.message();
      asked_wait = retry_after(reply.headers);
    } catch (const PeerError& error) {
      met = error.message();
    } catch (const TimeoutError& error) {
      met = error.message();
    } catch (const ProtocolError& error) {
      met = error.message();
    }
    met = fmt::format("the Kubernetes API server at {}: {}", access_.server, met);
    if (on_trouble_) on_trouble_(met);
    if (asked_wait && cancel_ != nullptr) pause(cancel_, *asked_wait);
    if (!deadline.is_never() && Deadline::Clock::now() + wait >= deadline.when())
      throw PeerError(met);
    pause(cancel_, wait);
    wait = std::min(wait * 2, kLongestPause);
  }
}

HttpReplyReader KubeClient::open(const std::string& path, Deadline deadline) const {
  return client_.open(request("GET", path), deadline);
}

}  // namespace cohort::engine::kubernetes

#include "cohort/sdk/service_calls.h"

#include <poll.h>

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/text.h"
#include "cohort/sdk/service_values_json.h"

namespace cohort::sdk {
namespace {

constexpr std::chrono::seconds kAnswerTime{30};
constexpr std::chrono::seconds kSilence{45};  // of a stream: a comment comes every 15 s
constexpr std::chrono::milliseconds kLookAgain{250};
constexpr std::chrono::seconds kStartAgain{3};  // a person may be about to start another one
constexpr int kBusyAnswers = 10;
constexpr std::uint64_t kLongestBusy = 5;  // seconds

HttpClientOptions client_options(const ServiceAddress& address, const HttpCancel* cancel) {
  HttpClientOptions options{.server = address.socket.empty()
                                          ? Endpoint::tcp(address.host, address.port)
                                          : Endpoint::unix_path(address.socket)};
  options.tls = address.tls;
  options.ca_file = address.ca_file;
  options.cancel = cancel;
  if (!address.token.empty())
    options.headers.emplace_back("Authorization", "Bearer " + address.token);
  return options;
}

std::string percent_encoded(std::string_view text, std::string_view kept) {
  std::string encoded;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (plain || kept.find(c) != kept.npos)
      encoded += c;
    else
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

HttpCall changing(std::string method, const std::string& target, std::string body) {
  HttpCall call{.method = std::move(method), .target = target, .body = std::move(body)};
  if (!call.body.empty()) call.headers.emplace_back("Content-Type", "application/json");
  return call;
}

// A refusal, which is short.
HttpReply rest_of(HttpReplyReader& reader) {
  HttpReply reply{.status = reader.status(), .headers = reader.headers()};
  const Deadline deadline = Deadline::after(kAnswerTime);
  for (std::string bytes; !(bytes = reader.read(deadline)).empty();) reply.body += bytes;
  return reply;
}

}  // namespace

std::string target(std::initializer_list<std::string_view> segments,
                   const std::vector<std::pair<std::string, std::string>>& query) {
  std::string text;
  for (const auto segment : segments) text += "/" + percent_encoded(segment, "-._~/:");
  char separator = '?';
  for (const auto& [name, value] : query) {
    if (value.empty()) continue;
    text += fmt::format("{}{}={}", separator, name, percent_encoded(value, "-._~:,"));
    separator = '&';
  }
  return text;
}

ServiceCalls::ServiceCalls(ServiceAddress address, const HttpCancel* cancel)
    : address_(std::move(address)), cancel_(cancel), client_(client_options(address_, cancel)) {}

HttpReply ServiceCalls::checked(HttpReply reply) const {
  if (reply.status >= 200 && reply.status < 300) return reply;
  const auto said = error_from_json(reply.body);
  const std::string message =
      said ? escape_controls(said->message)
           : fmt::format("the service at {} answers {}", address_.to_string(), reply.status);
  ErrorContext context;
  if (said) context.advice = escape_controls(said->advice);
  if (reply.status == 401)  // what the service advises is about HTTP
    throw AuthError(message,
                    {.advice = "Set COHORT_TOKEN, or COHORT_TOKEN_FILE, to a valid token."});
  if (reply.status >= 400 && reply.status < 500) throw InvalidInput(message, context);
  throw Error(message, context);
}

HttpReply ServiceCalls::once(const HttpCall& call) const {
  for (int attempt = 1;; ++attempt) {
    HttpReply reply = client_.call(call, Deadline::after(kAnswerTime));
    if (reply.status != 429 || attempt == kBusyAnswers) return checked(std::move(reply));
    const std::string* after = find_header(reply.headers, "retry-after");
    const auto seconds = after ? parse_unsigned(*after) : std::nullopt;
    pause(std::max<std::chrono::milliseconds>(
        kLookAgain, std::chrono::seconds(std::min(seconds.value_or(1), kLongestBusy))));
  }
}

HttpReply ServiceCalls::repeatable(const HttpCall& call) const {
  try {
    return once(call);
  } catch (const PeerError&) {  // it broke off, or is just being started again
    pause(kLookAgain);
    return once(call);
  }
}

std::string ServiceCalls::get(const std::string& target) const {
  return repeatable({.target = target, .headers = {{"Accept", "application/json"}}}).body;
}

std::string ServiceCalls::post(const std::string& target, std::string body) const {
  return once(changing("POST", target, std::move(body))).body;
}

void ServiceCalls::remove(const std::string& target) const { once(changing("DELETE", target, "")); }

std::function<std::string()> ServiceCalls::body_of(const std::string& target) const {
  auto reply = std::make_shared<HttpReplyReader>(
      client_.open({.target = target}, Deadline::after(kAnswerTime)));
  if (reply->status() != 200) checked(rest_of(*reply));
  return [reply] { return reply->read(Deadline::after(kAnswerTime)); };
}

bool ServiceCalls::follow_once(const std::string& target, Followed& followed,
                               const std::function<bool(const SseEvent&)>& take) const {
  HttpCall call{.target = target, .headers = {{"Accept", "text/event-stream"}}};
  if (!followed.last_id.empty()) call.headers.emplace_back("Last-Event-ID", followed.last_id);
  HttpReplyReader reply = client_.open(call, Deadline::after(kAnswerTime));
  if (reply.status() != 200) checked(rest_of(reply));
  followed.has_told = false;
  SseReader events;
  while (true) {
    followed.last_sign = Deadline::Clock::now();
    const std::string bytes = reply.read(Deadline::after(kSilence));
    if (bytes.empty()) return true;
    events.feed(bytes);
    while (auto event = events.next()) {
      if (!event->id.empty()) followed.last_id = event->id;
      if (!take(*event)) return false;
    }
  }
}

void ServiceCalls::follow(const std::string& target, std::chrono::seconds patience,
                          const std::function<bool(const SseEvent&)>& take) const {
  Followed followed;
  const auto silent_for = [&](std::chrono::seconds time) {
    return !followed.last_sign || Deadline::Clock::now() - *followed.last_sign >= time;
  };
  while (true) {
    try {
      if (!follow_once(target, followed, take)) return;
    } catch (const PeerError& error) {
      if (silent_for(patience)) throw;
      if (!std::exchange(followed.has_told, true))
        log::warning("{}; waiting for the service, at most {} s", error.message(),
                     patience.count());
      if (address_.is_own && silent_for(std::min(kStartAgain, patience))) find_or_start_service();
    } catch (const TimeoutError&) {
      if (silent_for(patience)) throw;
    }
    pause(kLookAgain);
  }
}

void ServiceCalls::pause(std::chrono::milliseconds time) const {
  pollfd cancelled{.fd = cancel_ ? cancel_->fd() : -1, .events = POLLIN, .revents = 0};
  ::poll(&cancelled, 1, static_cast<int>(time.count()));
}

}  // namespace cohort::sdk

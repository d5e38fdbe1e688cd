#include "cohort/service/page/cookies.h"

#include <fmt/format.h>

#include <algorithm>

#include "cohort/base/text.h"

namespace cohort::service {
namespace {

constexpr std::size_t kMostPortDigits = 5;

// "127.0.0.1:8080", "[::1]:8080" -> "8080"; "": the scheme's own.
std::string port_of(const HttpRequest& request) {
  const std::string* host = find_header(request.headers, "host");
  if (!host) return {};
  const auto colon = host->rfind(':');
  if (colon == std::string::npos || host->find(']', colon) != std::string::npos) return {};
  const std::string port = host->substr(colon + 1);
  const bool is_number =
      !port.empty() && port.size() <= kMostPortDigits &&
      std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? port : std::string();
}

}  // namespace

std::string cookie_name(const HttpRequest& request) {
  const std::string port = port_of(request);
  return fmt::format("{}cohort_session{}{}", request.peer.is_tls ? "__Host-" : "",
                     port.empty() ? "" : "_", port);
}

std::string shown_session(const HttpRequest& request) {
  const std::string name = cookie_name(request);
  for (const auto& [header, value] : request.headers) {
    if (header != "cookie") continue;
    for (const std::string& one : split(value, ';')) {
      const std::string_view pair = trim(one);
      if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=')
        return std::string(pair.substr(name.size() + 1));
    }
  }
  return {};
}

std::string session_cookie(const HttpRequest& request, const std::string& secret,
                           std::chrono::seconds age) {
  return fmt::format("{}={}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}{}", cookie_name(request),
                     secret, secret.empty() ? 0 : age.count(),
                     request.peer.is_tls ? "; Secure" : "");
}

}  // namespace cohort::service

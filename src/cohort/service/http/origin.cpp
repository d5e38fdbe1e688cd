#include "cohort/service/http/origin.h"

#include <arpa/inet.h>
#include <strings.h>

#include "cohort/base/text.h"
#include "cohort/service/http/api_error.h"

namespace cohort::service {
namespace {

bool is_ip_address(const std::string& host) {
  in_addr four{};
  in6_addr six{};
  return ::inet_pton(AF_INET, host.c_str(), &four) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &six) == 1;
}

bool is_same_name(const std::string& a, const std::string& b) {
  return ::strcasecmp(a.c_str(), b.c_str()) == 0;
}

// "name:8080" -> "name", "[::1]:8080" -> "::1".
std::string host_of(const std::string& header) {
  if (!header.empty() && header.front() == '[') {
    const auto close = header.find(']');
    return close == std::string::npos ? std::string() : header.substr(1, close - 1);
  }
  return header.substr(0, header.find(':'));
}

bool is_own_host(const std::string& host, const std::vector<std::string>& names) {
  if (is_ip_address(host) || is_same_name(host, "localhost")) return true;
  for (const std::string& name : names)
    if (is_same_name(host, name)) return true;
  return false;
}

}  // namespace

void require_own_host(const HttpRequest& request, const std::vector<std::string>& names) {
  if (request.peer.user) return;
  const std::string* host = find_header(request.headers, "host");
  if (!host) throw ApiError(400, "the request has no Host");
  if (!is_own_host(host_of(*host), names))
    throw ApiError(403, fmt::format("'{}' is not a name of this service", escape_controls(*host)),
                   {.advice = "Use its address, or the name that --listen was given."});
}

void require_own_origin(const HttpRequest& request, const std::vector<std::string>& names) {
  require_own_host(request, names);
  const std::string* host = find_header(request.headers, "host");
  if (const std::string* origin = find_header(request.headers, "origin")) {
    const std::string own =
        fmt::format("{}://{}", request.peer.is_tls ? "https" : "http", host ? *host : "");
    if (!is_same_name(*origin, own))
      throw ApiError(
          403, fmt::format("pages of '{}' may not use this service", escape_controls(*origin)));
  }
  if (const std::string* site = find_header(request.headers, "sec-fetch-site"))
    if (*site == "cross-site" || *site == "same-site")
      throw ApiError(403, "pages of another origin may not use this service");
}

}  // namespace cohort::service

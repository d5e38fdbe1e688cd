#include "cohort/cluster/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::cluster {
namespace {

[[noreturn]] void refuse(std::string_view text, std::string_view why, std::string advice) {
  throw InvalidInput(fmt::format("the address '{}' {}", text, why), {.advice = std::move(advice)});
}

int parse_port(std::string_view text, std::string_view port) {
  auto number = parse_unsigned(port);
  bool digits = !port.empty() && port.find_first_not_of("0123456789") == std::string_view::npos;
  if (!number && !digits)
    refuse(text, fmt::format("has the port '{}', which is not a number", port),
           "Write host:port with a port from 1 to 65535.");
  if (!number || *number < 1 || *number > 65535)
    refuse(text, fmt::format("has the port {}, which is out of range", port),
           "Use a port from 1 to 65535.");
  return static_cast<int>(*number);
}

}  // namespace

std::string to_string(const Address& address) {
  bool ipv6 = address.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", ipv6 ? "[" : "", address.host, ipv6 ? "]" : "", address.port);
}

Address parse_address(std::string_view text) {
  if (size_t scheme = text.find("://"); scheme != std::string_view::npos)
    refuse(text, fmt::format("begins with the scheme '{}'", text.substr(0, scheme + 3)),
           fmt::format("Leave it out: write '{}'.", text.substr(scheme + 3)));
  if (size_t at = text.rfind('@'); at != std::string_view::npos)
    refuse(text, fmt::format("has the user name '{}'", text.substr(0, at)),
           fmt::format("Leave it out: write '{}'.", text.substr(at + 1)));

  std::string_view host, rest;
  if (text.starts_with('[')) {
    size_t close = text.find(']');
    if (close == std::string_view::npos)
      refuse(text, "opens a bracket that it does not close", "Write [IPv6 address]:port.");
    host = text.substr(1, close - 1);
    rest = text.substr(close + 1);
    in6_addr ignored;
    if (inet_pton(AF_INET6, std::string(host.substr(0, host.find('%'))).c_str(), &ignored) != 1)
      refuse(text, fmt::format("has '{}' in brackets, which is no IPv6 address", host),
             "Brackets are for IPv6, as in [::1]:2222; write other hosts without them.");
  } else {
    size_t colon = text.find(':');
    host = text.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view() : text.substr(colon);
    if (std::count(text.begin(), text.end(), ':') > 1)
      refuse(text, "has more than one colon",
             "Put an IPv6 address in brackets, as in [::1]:2222; else write one host:port.");
  }
  if (rest.empty())
    refuse(text, "has no port", fmt::format("Write host:port, as in '{}:2222'.", text));
  if (host.empty()) refuse(text, "has no host", "Write host:port, as in 'localhost:2222'.");
  auto misplaced = std::find_if(host.begin(), host.end(), [](unsigned char c) {
    return c <= ' ' || c == 0x7f || std::string_view("/\\,;'\"[]{}()").find(c) != std::string::npos;
  });
  if (misplaced != host.end())
    refuse(text, fmt::format("has the character '{}' in its host", *misplaced),
           "Write one host name or IP address, a colon and a port.");
  if (rest.front() != ':')
    refuse(text, fmt::format("has '{}' after the bracket", rest), "Write [IPv6 address]:port.");
  return {std::string(host), parse_port(text, rest.substr(1))};
}

bool is_loopback(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  std::string name(host);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name == "localhost") return true;
  in_addr v4;
  if (inet_pton(AF_INET, name.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6;
  if (inet_pton(AF_INET6, name.c_str(), &v6) != 1) return false;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) return v6.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace cohort::cluster

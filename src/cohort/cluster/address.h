#pragma once

#include <compare>
#include <string>
#include <string_view>

namespace cohort::cluster {

// Where a task listens: a host name, IPv4 or IPv6 address, and a port.
struct Address {
  std::string host;
  int port = 0;

  auto operator<=>(const Address&) const = default;
};

std::string to_string(const Address& address);  // "host:2222", "[::1]:2222"

// Throws InvalidInput that names the text and the fix for: no port, a port that is not 1..65535,
// an empty host, `user@host:port`, a scheme such as grpc://.
Address parse_address(std::string_view text);

// True for localhost, 127.0.0.0/8 and ::1, without asking a name server.
bool is_loopback(std::string_view host);

}  // namespace cohort::cluster

#include "cohort/launch/plan/ports.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <random>
#include <string>

#include "cohort/base/error.h"

namespace cohort::launch {
namespace {

constexpr int kLowest = 10000;  // below live well-known services
constexpr int kHighest = 65535;
constexpr int kFewest = 1000;  // a smaller range is not worth having

// Takes the machine-wide claim on `port`; invalid when another process holds it.
UniqueFd claim(int port) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) throw SystemError("cannot reserve a port", errno);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string name = port_claim_name(port);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) fd.reset();
  return fd;
}

// No process listens on the port, on any address of either family.
bool is_free(int port) {
  auto number = htons(static_cast<uint16_t>(port));
  UniqueFd fd6(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 any6{.sin6_family = AF_INET6, .sin6_port = number};
  if (fd6 && ::bind(fd6.get(), reinterpret_cast<sockaddr*>(&any6), sizeof any6) == 0) return true;
  if (fd6 && errno == EADDRINUSE) return false;
  UniqueFd fd4(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));  // a machine without IPv6
  sockaddr_in any4{.sin_family = AF_INET, .sin_port = number};
  return ::bind(fd4.get(), reinterpret_cast<sockaddr*>(&any4), sizeof any4) == 0;
}

}  // namespace

PortRange ephemeral_ports() {
  PortRange range{32768, 60999};
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> range.first >> range.last;
  return range;
}

PortRange ports_outside(PortRange ephemeral) {
  PortRange below{kLowest, ephemeral.first - 1};
  PortRange above{ephemeral.last + 1, kHighest};
  if (below.last - below.first + 1 >= kFewest) return below;
  if (above.last - above.first + 1 >= kFewest) return above;
  return {kLowest, kHighest};
}

std::string port_claim_name(int port) {
  return fmt::format("cohort-port-{}-{}", ::geteuid(), port);
}

PortReservation::PortReservation() : range_(ports_outside(ephemeral_ports())) {}

void PortReservation::release_all() {
  claims_.clear();
  unclaimed_.clear();
}

int PortReservation::reserve() {
  std::random_device random;
  const int count = range_.last - range_.first + 1;
  const int start = std::uniform_int_distribution<int>(0, count - 1)(random);
  for (int i = 0; i < count; ++i) {
    const int port = range_.first + (start + i) % count;
    UniqueFd held = claim(port);
    if (held && is_free(port)) {
      claims_.push_back(std::move(held));
      return port;
    }
  }
  for (int i = 0; i < count; ++i) {
    const int port = range_.first + (start + i) % count;
    if (is_free(port) && unclaimed_.insert(port).second) return port;
  }
  throw Error(fmt::format("no free port between {} and {}", range_.first, range_.last),
              {.advice = "See who holds them with: ss -tlnp"});
}

}  // namespace cohort::launch

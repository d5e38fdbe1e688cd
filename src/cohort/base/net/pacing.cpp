#include "cohort/base/net/pacing.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <string_view>

namespace cohort {

void avoid_pacing(int socket, const SocketAddress& address) noexcept {
  if (address.family() == AF_UNIX || !address.is_loopback()) return;
  for (const std::string_view control : {"cubic", "reno"})
    if (::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, control.data(),
                     static_cast<socklen_t>(control.size())) == 0)
      return;
}

void avoid_pacing_of_accepted(int listener) noexcept {
  SocketAddress bound;
  bound.size = sizeof bound.storage;
  if (::getsockname(listener, reinterpret_cast<sockaddr*>(&bound.storage), &bound.size) == 0)
    avoid_pacing(listener, bound);
}

}  // namespace cohort

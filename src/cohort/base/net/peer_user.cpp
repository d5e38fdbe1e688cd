#include "cohort/base/net/peer_user.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "cohort/base/error.h"
#include "cohort/base/unique_fd.h"

namespace cohort {
namespace {

// One end of a connection, as the system's tables have it.
struct End {
  std::array<std::uint32_t, 4> address{};  // the first word only for IPv4
  std::uint16_t port = 0;                  // in network order
};

struct AddressPair {
  sa_family_t family = AF_UNSPEC;
  End peer, own;
};

End end_of(const sockaddr_storage& storage) {
  End end;
  if (storage.ss_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, &storage, sizeof in);
    end.address[0] = in.sin_addr.s_addr;
    end.port = in.sin_port;
  } else {
    sockaddr_in6 in;
    std::memcpy(&in, &storage, sizeof in);
    std::memcpy(end.address.data(), &in.sin6_addr, sizeof in.sin6_addr);
    end.port = in.sin6_port;
  }
  return end;
}

std::optional<AddressPair> pair_of(int fd) {
  sockaddr_storage own{}, peer{};
  socklen_t own_size = sizeof own, peer_size = sizeof peer;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0 ||
      ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0)
    return std::nullopt;  // it is gone
  if (own.ss_family != AF_INET && own.ss_family != AF_INET6) return std::nullopt;
  return AddressPair{own.ss_family, end_of(peer), end_of(own)};
}

struct DiagRequest {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

DiagRequest request_for(const AddressPair& pair) {
  DiagRequest request{};
  request.header = {
      .nlmsg_len = sizeof request, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST};
  request.body.sdiag_family = static_cast<std::uint8_t>(pair.family);
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~0u;
  inet_diag_sockid& id = request.body.id;
  id.idiag_sport = pair.peer.port;
  id.idiag_dport = pair.own.port;
  std::memcpy(id.idiag_src, pair.peer.address.data(), sizeof id.idiag_src);
  std::memcpy(id.idiag_dst, pair.own.address.data(), sizeof id.idiag_dst);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return request;
}

std::string table_text(sa_family_t family, const End& end) {
  std::string text;
  const int words = family == AF_INET ? 1 : 4;
  for (int i = 0; i < words; ++i) text += fmt::format("{:08X}", end.address[i]);
  return text + fmt::format(":{:04X}", ntohs(end.port));
}

}  // namespace

std::optional<uid_t> detail::tcp_peer_user_by_diag(int fd) {
  const auto pair = pair_of(fd);
  if (!pair) return std::nullopt;
  const UniqueFd netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink) throw SystemError("cannot ask who is at the other end of a connection", errno);
  const timeval limit{.tv_sec = 1, .tv_usec = 0};  // the answer is there when send() returns
  ::setsockopt(netlink.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const DiagRequest request = request_for(*pair);
  alignas(nlmsghdr) char buffer[4096];
  ssize_t size = -1;
  if (::send(netlink.get(), &request, sizeof request, 0) == sizeof request)
    size = ::recv(netlink.get(), buffer, sizeof buffer, 0);
  if (size < 0) throw SystemError("cannot ask who is at the other end of a connection", errno);
  nlmsghdr header;
  if (static_cast<std::size_t>(size) < sizeof header) return std::nullopt;
  std::memcpy(&header, buffer, sizeof header);
  if (header.nlmsg_type == NLMSG_ERROR) {
    nlmsgerr error{};
    std::memcpy(&error, buffer + NLMSG_HDRLEN,
                std::min<std::size_t>(sizeof error, size - NLMSG_HDRLEN));
    if (error.error == -ENOENT) return std::nullopt;
    throw SystemError("cannot ask who is at the other end of a connection", -error.error);
  }
  inet_diag_msg answer;
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
      static_cast<std::size_t>(size) < NLMSG_HDRLEN + sizeof answer)
    return std::nullopt;
  std::memcpy(&answer, buffer + NLMSG_HDRLEN, sizeof answer);
  // A socket that its process has closed has no inode, and is said to be root's.
  if (answer.idiag_inode == 0) return std::nullopt;
  return answer.idiag_uid;
}

// The lines: "N: LOCAL REMOTE STATE TX:RX TIMER:WHEN RETRANSMITS UID TIMEOUT INODE ..."
std::optional<uid_t> detail::tcp_peer_user_by_table(int fd) {
  const auto pair = pair_of(fd);
  if (!pair) return std::nullopt;
  std::ifstream table(pair->family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6");
  if (!table) throw SystemError("cannot read /proc/net/tcp", errno ? errno : ENOENT);
  const std::string local = table_text(pair->family, pair->peer);
  const std::string remote = table_text(pair->family, pair->own);
  std::string line, word, from, to, state, queues, timer, retransmits;
  while (std::getline(table, line)) {
    if (line.find(local) == line.npos) continue;
    std::istringstream words(line);
    uid_t user = 0;
    unsigned long timeout = 0, inode = 0;
    words >> word >> from >> to >> state >> queues >> timer >> retransmits >> user >> timeout >>
        inode;
    if (words && from == local && to == remote) {
      if (inode == 0) return std::nullopt;
      return user;
    }
  }
  return std::nullopt;
}

std::optional<uid_t> tcp_peer_user(int fd) {
  try {
    return detail::tcp_peer_user_by_diag(fd);
  } catch (const SystemError&) {  // a system without sock_diag
    return detail::tcp_peer_user_by_table(fd);
  }
}

uid_t unix_peer_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    throw SystemError("cannot ask who is at the other end of a Unix socket", errno);
  return peer.uid;
}

}  // namespace cohort

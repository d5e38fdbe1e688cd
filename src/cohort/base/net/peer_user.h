#pragma once

#include <sys/types.h>

#include <optional>

namespace cohort {

// The user at the other end of a TCP connection between two processes of this machine, as the
// system knows it (sock_diag, else /proc/net/tcp): nothing when the other end is on another
// machine, cannot be found, or was closed already; then no user answers for it any more. Functions
// without state, for any thread. Throws SystemError when the system does not tell (neither way
// works here).
std::optional<uid_t> tcp_peer_user(int fd);

// The user at the other end of a Unix socket, as of its connect(). Throws SystemError.
uid_t unix_peer_user(int fd);

namespace detail {
// The two ways, for tests.
std::optional<uid_t> tcp_peer_user_by_diag(int fd);
std::optional<uid_t> tcp_peer_user_by_table(int fd);
}  // namespace detail

}  // namespace cohort

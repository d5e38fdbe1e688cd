#pragma once

#include <memory>

#include "cohort/base/error.h"
#include "cohort/collective/native/local_channel.h"
#include "cohort/transport/messenger.h"

namespace cohort::collective {

// Breaks the group for the ranks of this host and tells the other hosts, before this rank's caller
// knows. `error` is what a use of `remote` or `channel` threw; a notice that came from another host
// wins over it. Throws what broke the group.
[[noreturn]] void spread_failure(LocalChannel& channel, transport::Messenger& remote,
                                 const Error& error, const std::string& during);

// Runs `step`; a peer that is gone, a deadline that passed, a broken protocol or an interrupt ends the group.
// `describe()` says what was called.
template <typename Describe, typename Step>
auto or_spread_failure(LocalChannel& channel, transport::Messenger& remote, Describe&& describe,
                       Step&& step) {
  try {
    return step();
  } catch (const PeerError& error) {
    spread_failure(channel, remote, error, describe());
  } catch (const TimeoutError& error) {
    spread_failure(channel, remote, error, describe());
  } catch (const ProtocolError& error) {
    spread_failure(channel, remote, error, describe());
  } catch (const AuthError& error) {
    spread_failure(channel, remote, error, describe());
  } catch (const Interrupted&) {
    channel.break_off();  // the sentinel tells the other hosts
    throw;
  }
}

// A message to or from a rank of another host, `peer`, whose failure ends the group. Both
// references must outlive it.
std::unique_ptr<transport::Transfer> send_remotely(LocalChannel& channel,
                                                   transport::Messenger& remote, const Peer& peer,
                                                   std::span<const std::byte> bytes);
std::unique_ptr<transport::Transfer> receive_remotely(LocalChannel& channel,
                                                      transport::Messenger& remote,
                                                      const Peer& peer, std::span<std::byte> bytes);

}  // namespace cohort::collective

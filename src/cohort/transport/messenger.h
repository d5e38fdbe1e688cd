#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cohort/base/deadline.h"

namespace cohort::transport {

// Two streams of messages between each pair of ranks that never wait for each other.
enum class Lane : std::uint8_t { collective, point_to_point };

// A send of at most this many bytes is done without waiting for its receive, as long as few of them
// are under way: two ranks may both send first.
inline constexpr std::size_t kEagerBytes = 64 << 10;

// One message under way. Destroying it before it is done aborts the messenger, since the peer
// would read half a message. Thread-safe.
class Transfer {
 public:
  virtual ~Transfer() = default;

  // How many bytes from the front have been sent (the memory may be changed) or received (may be
  // read). Never falls.
  virtual std::size_t done() const = 0;

  // Waits until done() >= bytes. Throws TimeoutError when the deadline passes first, PeerError when
  // the peer is gone, ProtocolError when the peer's message has another size; all name the peer.
  // The messenger is then broken: every transfer, old or new, throws the same.
  virtual void wait(std::size_t bytes, Deadline deadline) = 0;
};

// Why a group ended, as it is told to peers on other hosts.
struct AbortNotice {
  std::uint32_t kind = 0;  // a number that only the group understands; carried as it is
  int culprit = -1;        // the rank that died, stalled or disagreed
  std::string text;        // one sentence for a person
};

// Messages between this rank and any other of its group, over whatever carries them (tcp, a test's
// memory, a faulty wrapper). Ranks are the group's. For each (peer, lane) messages arrive once,
// whole and in order; send i meets receive i, and both must have the same size.
//
// Connections are opened by the first transfer that needs them, and authenticated before a byte is
// parsed. Memory given to send() and receive() must stay until the transfer is done or has thrown.
// Transfers make progress while some thread waits on any transfer of this messenger; whether they
// do so without that is the implementation's choice.
//
// Destroying a messenger is an orderly goodbye: peers' transfers with this rank that are not done
// then fail with a PeerError that says that it left; their transfers with others go on.
//
// Threads: thread-safe. Failure: see Transfer::wait; send() and receive() throw the same errors
// when the messenger is already broken.
class Messenger {
 public:
  virtual ~Messenger() = default;

  virtual std::unique_ptr<Transfer> send(int peer, Lane lane, std::span<const std::byte> bytes) = 0;
  virtual std::unique_ptr<Transfer> receive(int peer, Lane lane, std::span<std::byte> bytes) = 0;

  // Breaks this messenger and tells every connected peer why, as far as that works at once. Wakes
  // all waiters. Idempotent: the first notice counts. Callable from any thread at any time.
  virtual void abort(const AbortNotice& notice) noexcept = 0;

  // The notice that broke this messenger: this rank's own or a peer's. Nothing while it works, and
  // when it broke in another way (a lost connection, a deadline).
  virtual std::optional<AbortNotice> aborted() const = 0;
};

}  // namespace cohort::transport

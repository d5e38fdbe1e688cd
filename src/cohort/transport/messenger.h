#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cohort/base/deadline.h"

namespace cohort::transport {

// Two streams of messages between each pair of ranks that never wait for each other.
enum class Lane : std::uint8_t { collective, point_to_point };

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
  int culprit = -1;  // the rank that died, stalled or disagreed
  std::string text;  // one sentence for a person
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
};

}  // namespace cohort::transport

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cohort/base/deadline.h"
#include "cohort/collective/backend/call.h"
#include "cohort/collective/backend/failure.h"
#include "cohort/transport/messenger.h"

namespace cohort::collective {

// The engine under a Group: Cohort's own (native/), or a site's MPI (mpi/). A Group checks
// arguments, numbers the calls, runs the asynchronous ones; a backend moves data.
//
// Threads: execute() is called by one thread at a time; send(), receive(), allocate(), free(),
// failure() and abort() by any thread at any time.
// Failure: as Group promises. After a PeerError, TimeoutError, ProtocolError or MismatchError the
// backend is broken and throws at once from every call.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string name() const = 0;  // "shm", "inproc", "hierarchical", "mpi": for reports

  virtual void execute(const Call& call, Deadline deadline) = 0;

  // Point to point: messages between two ranks arrive in the order of the calls.
  virtual std::unique_ptr<transport::Transfer> send(int peer, std::span<const std::byte> bytes) = 0;
  virtual std::unique_ptr<transport::Transfer> receive(int peer, std::span<std::byte> bytes) = 0;

  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void free(std::byte* memory) = 0;

  // Called by the members only, `ranks` ascending and with this rank in it; `id` is unique to this
  // sub-group and the same for all of them.
  virtual std::unique_ptr<Backend> subgroup(std::span<const int> ranks, const std::string& id,
                                            Deadline deadline) = 0;

  // What has broken the group, as far as this rank knows without a call: a failure of a rank on this
  // host, or one that it was told of. Neither waits nor throws.
  virtual std::optional<Failure> failure() = 0;
  // Breaks the group on purpose: pending and later calls of every rank fail with `reason`.
  virtual void abort(const std::string& reason) noexcept = 0;
  // Says to the peers that this rank makes no more calls. Neither waits nor throws.
  virtual void leave() noexcept = 0;
};

}  // namespace cohort::collective

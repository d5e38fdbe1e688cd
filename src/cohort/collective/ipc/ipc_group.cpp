#include "cohort/collective/ipc/ipc_group.h"

#include <chrono>
#include <condition_variable>
#include <exception>

#include "cohort/base/deadline.h"
#include "cohort/base/error.h"
#include "cohort/collective/arguments.h"

namespace cohort::collective::ipc {

namespace {

// How long a destructor waits for this process' own streams, which nothing holds up, or not any more.
constexpr std::chrono::seconds kOwnStreams{2};

}  // namespace

IpcGroup::IpcGroup(std::unique_ptr<Endpoint> endpoint, std::shared_ptr<DeviceArithmetic> arithmetic)
    : endpoint_(std::move(endpoint)),
      arithmetic_(std::move(arithmetic)),
      log_(endpoint_->shared_block(), rank(), size()) {
  if (size() > 1)
    watch_.emplace([this] {
      const auto found = failure_of_peers();
      if (found) fail(*found);
      return found.has_value();
    });
}

IpcGroup::~IpcGroup() {
  watch_.reset();
  if (!is_past_all_calls()) {
    fail({.kind = FailureKind::left,
          .culprit = rank(),
          .text = fmt::format("rank {} has left the group on GPUs during a call", rank()),
          .during = {}});
    endpoint_->await_idle(Deadline::after(kOwnStreams));
  }
  // Not earlier: a peer takes a rank that has left for one that does nothing any more.
  endpoint_->block().state(rank()).left = 1;
  Endpoint::retire(std::move(endpoint_));
}

bool IpcGroup::is_past_all_calls() {
  endpoint_->end_replays();
  bool may_wait = endpoint_->has_captured();
  {
    const std::lock_guard lock(mutex_);
    may_wait = may_wait && !failure_;
  }
  // An event tells of calls at once, the driver of replays after a moment.
  return endpoint_->await_idle(may_wait ? Deadline::after(kOwnStreams) : Deadline::after({}));
}

void IpcGroup::fail(const Failure& failure) noexcept {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = failure;
  endpoint_->block().failure().write(failure);
  endpoint_->end_waits();
}

void IpcGroup::abort(const std::string& reason) noexcept {
  fail({.kind = FailureKind::aborted,
        .culprit = rank(),
        .text = fmt::format("rank {} ended the calls on GPUs: {}", rank(), reason),
        .during = {}});
}

std::optional<Failure> IpcGroup::failure_of_peers() const {
  const SharedBlock& block = endpoint_->block();
  if (block.failure().present()) return block.failure().read();
  const std::uint64_t own = block.state(rank()).calls;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    // Asked before `left`: one that leaves may end at once.
    const bool is_dead = endpoint_->is_dead(peer);
    const bool left = block.state(peer).left != 0;
    // A rank that has left is past its calls, and has given this one its last `done`: where that is
    // taken, this rank's stream is in a call, or a replay, that the peer does not make.
    const bool misses =
        block.state(peer).calls < own || block.word(rank(), WordSet::done, peer) == 0;
    if (left && misses)
      return Failure{.kind = FailureKind::left,
                     .culprit = peer,
                     .text = fmt::format("rank {} has left the group on GPUs", peer),
                     .during = {}};
    if (!left && is_dead)
      return Failure{.kind = FailureKind::died,
                     .culprit = peer,
                     .text = fmt::format("the process of rank {} died", peer),
                     .during = {}};
  }
  return std::nullopt;
}

void IpcGroup::check_failure() {
  const std::lock_guard lock(mutex_);
  if (failure_) failure_->raise();
}

void IpcGroup::check() {
  check_failure();
  auto found = failure_of_peers();
  if (!found) found = log_.difference();
  if (!found) return;
  fail(*found);
  check_failure();
}

void IpcGroup::run(Call call, DeviceStream stream, const std::function<void()>& body) {
  check_arguments(call, rank(), size());
  bool captured = false;
  try {
    captured = endpoint_->is_captured(stream);
    if (!captured) log_.add(call);
    check();
    endpoint_->enter(stream);
    body();
    endpoint_->leave(stream);
  } catch (const std::exception& error) {
    if (!captured)
      fail({.kind = FailureKind::aborted,
            .culprit = rank(),
            .text = fmt::format("{} on a GPU broke off at rank {}: {}", to_string(call.kind),
                                rank(), error.what()),
            .during = describe(call)});
    throw;
  }
}

void IpcGroup::copy(Address to, Address from, std::size_t bytes, DeviceStream stream) const {
  endpoint_->driver().copy(to, from, bytes, stream);
}

std::vector<int> IpcGroup::peers() const {
  std::vector<int> peers;
  for (int step = 1; step < size(); ++step) peers.push_back((rank() + step) % size());
  return peers;
}

}  // namespace cohort::collective::ipc

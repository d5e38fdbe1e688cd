#include "cohort/collective/native/backend.h"

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/collective/native/agree.h"
#include "cohort/collective/native/hierarchical.h"
#include "cohort/collective/native/local.h"
#include "cohort/collective/native/spread_failure.h"

namespace cohort::collective {

using transport::SharedRef;
using transport::Transfer;

namespace {

std::string encode(SharedRef ref) {
  return fmt::format("{} {}", static_cast<unsigned>(ref.kind), ref.value);
}

SharedRef decode(const std::string& text) {
  unsigned kind = 0;
  unsigned long long value = 0;
  if (std::sscanf(text.c_str(), "%u %llu", &kind, &value) != 2 || kind > 2)
    throw ProtocolError(fmt::format("'{}' is not a place in shared memory", text));
  return {static_cast<SharedRef::Kind>(kind), value};
}

}  // namespace

NativeBackend::NativeBackend(Parts parts, Deadline deadline) : parts_(std::move(parts)) {
  const int host = parts_.placement.host_of[parts_.rank];
  local_ranks_ = parts_.placement.ranks_on(host);
  const int index = member_of(parts_.rank);
  const int members = static_cast<int>(local_ranks_.size());

  SharedRef shared;
  const std::string key = fmt::format("{}/board/{}", parts_.id, host);
  if (index == 0) {
    shared = transport::allocate_shared(
        *parts_.arena, members,
        LocalChannel::shared_bytes(members, LocalMessenger::shared_bytes(members)));
    if (members > 1) parts_.rendezvous->set(key, encode(shared), deadline);
  } else {
    shared = decode(parts_.rendezvous->get(key, deadline));
  }
  std::vector<Peer> peers;
  for (const int rank : local_ranks_) peers.push_back(parts_.placement.peers[rank]);
  std::vector<std::string> tasks;
  for (const Peer& peer : parts_.placement.peers) tasks.push_back(peer.task);
  auto domain =
      std::make_shared<transport::Domain>(parts_.arena, parts_.arena_ranks, index, shared);
  channel_ = std::make_unique<LocalChannel>(std::move(domain), std::move(peers), std::move(tasks),
                                            deadline, parts_.check);
  local_ = std::make_unique<LocalMessenger>(*channel_);
  if (parts_.placement.hosts() > 1) {
    remote_ = parts_.connect(parts_.rank, size(), parts_.id, parts_.rendezvous);
    sentinel_ = std::thread([this] { watch_for_failure(); });
  }
  parts_.check = {};
}

NativeBackend::~NativeBackend() {
  closing_.store(true);
  channel_->leave();
  if (sentinel_.joinable()) sentinel_.join();
}

std::string NativeBackend::name() const {
  if (remote_ != nullptr) return local_ranks_.size() > 1 ? "hierarchical" : "network";
  return channel_->reaches_everything() ? "inproc" : "shm";
}

int NativeBackend::member_of(int rank) const {
  const auto it = std::lower_bound(local_ranks_.begin(), local_ranks_.end(), rank);
  if (it == local_ranks_.end() || *it != rank) return -1;
  return static_cast<int>(it - local_ranks_.begin());
}

void NativeBackend::execute(const Call& call, Deadline deadline) {
  channel_->check([&] { return describe(call); });
  if (remote_ != nullptr)
    return hierarchical_execute({*channel_, *remote_, parts_.placement, parts_.rank, parts_.tuning},
                                call, deadline);
  Exposure exposure = exposure_of(call, channel_->index(), channel_->size());
  if (call.kind == CallKind::all_reduce)
    exposure.inline_bytes = parts_.tuning.inline_bytes(channel_->size());
  const Agreement agreement = agree(*channel_, call, exposure, true, deadline);
  if (!agreement.mismatch.empty()) {
    // Every rank says what it saw itself; the shared record is for calls that come later.
    const Failure mismatch{FailureKind::mismatch, -1, agreement.mismatch, describe(call)};
    channel_->fail(mismatch);
    mismatch.raise();
  }
  local_execute(*channel_, agreement, call, deadline);
}

std::unique_ptr<Transfer> NativeBackend::send(int peer, std::span<const std::byte> bytes) {
  const int member = member_of(peer);
  if (member >= 0) return local_->send(member, transport::Lane::point_to_point, bytes);
  return send_remotely(*channel_, *remote_, parts_.placement.peers[peer], bytes);
}

std::unique_ptr<Transfer> NativeBackend::receive(int peer, std::span<std::byte> bytes) {
  const int member = member_of(peer);
  if (member >= 0) return local_->receive(member, transport::Lane::point_to_point, bytes);
  return receive_remotely(*channel_, *remote_, parts_.placement.peers[peer], bytes);
}

std::unique_ptr<Backend> NativeBackend::subgroup(std::span<const int> ranks, const std::string& id,
                                                 Deadline deadline) {
  Parts parts{.id = parts_.id + "/" + id,
              .rank = 0,
              .placement = {},
              .arena = parts_.arena,
              .arena_ranks = {},
              .rendezvous = parts_.rendezvous,
              .connect = parts_.connect,
              .tuning = parts_.tuning,
              .check = {}};
  std::vector<int> new_number(static_cast<std::size_t>(parts_.placement.hosts()), -1);
  int hosts = 0;
  const int own_host = parts_.placement.host_of[parts_.rank];
  for (const int rank : ranks) {
    const auto new_rank = static_cast<int>(parts.placement.peers.size());
    if (rank == parts_.rank) parts.rank = new_rank;
    const int host = parts_.placement.host_of[rank];
    if (new_number[host] < 0) new_number[host] = hosts++;
    Peer peer = parts_.placement.peers[rank];
    peer.rank = new_rank;
    parts.placement.peers.push_back(std::move(peer));
    parts.placement.host_of.push_back(new_number[host]);
    if (host == own_host) parts.arena_ranks.push_back(parts_.arena_ranks[member_of(rank)]);
  }
  return std::make_unique<NativeBackend>(std::move(parts), deadline);
}

void NativeBackend::abort(const std::string& reason) noexcept {
  const Peer& self = parts_.placement.peers[parts_.rank];
  channel_->fail({FailureKind::aborted,
                  self.rank,
                  fmt::format("{} aborted the group: {}", self.name(), reason),
                  {}});
}

void NativeBackend::leave() noexcept { channel_->leave(); }

void NativeBackend::watch_for_failure() {
  channel_->domain().wait([&] { return closing_.load() || channel_->broken(); }, Deadline::never());
  if (const auto failure = channel_->failure())
    remote_->abort({static_cast<std::uint32_t>(failure->kind), failure->culprit, failure->text});
}

}  // namespace cohort::collective

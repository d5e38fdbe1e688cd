#include "cohort/collective/native/host_moves.h"

#include <algorithm>
#include <numeric>

#include "cohort/collective/native/agree.h"
#include "cohort/collective/native/messages.h"
#include "cohort/collective/reduction/kernels.h"

namespace cohort::collective {

namespace {

// One call, seen from one rank: where every rank's elements are.
class Mover {
 public:
  Mover(const Hosts& hosts, const Call& call, Deadline deadline)
      : hosts_(hosts),
        call_(call),
        deadline_(deadline),
        size_(static_cast<int>(hosts.placement.peers.size())),
        element_(size_of(call.dtype)),
        run_(call.count * element_),
        in_(static_cast<const std::byte*>(call.in)),
        out_(static_cast<std::byte*>(call.out)),
        local_ranks_(hosts.placement.ranks_on(hosts.host())),
        messages_(hosts) {}

  // Every rank sends its run to the leaders of the other hosts; a leader that has everything
  // broadcasts it inside its host.
  void all_gather(std::span<const std::size_t> counts) {
    std::vector<std::size_t> offsets = packed(counts);
    const std::size_t own = counts[hosts_.rank] * element_;
    for (int host = 0; host < hosts_.placement.hosts(); ++host)
      if (host != hosts_.host()) messages_.send(hosts_.leader_of(host), in_, own);
    if (hosts_.is_leader())
      for (int rank = 0; rank < size_; ++rank)
        if (hosts_.placement.host_of[rank] != hosts_.host())
          messages_.receive(rank, out_ + offsets[rank], counts[rank] * element_);
    gather_locally(0, counts, offsets);
    messages_.wait(deadline_);
    local_broadcast(out_, offsets.back(), 0);
  }

  void gather() {
    const std::vector<std::size_t> counts(static_cast<std::size_t>(size_), call_.count);
    const int root_host = hosts_.placement.host_of[call_.root];
    if (hosts_.rank == call_.root) {
      for (int rank = 0; rank < size_; ++rank)
        if (hosts_.placement.host_of[rank] != root_host)
          messages_.receive(rank, out_ + run_ * static_cast<std::size_t>(rank), run_);
    } else if (hosts_.host() != root_host) {
      messages_.send(call_.root, in_, run_);
    }
    if (hosts_.host() == root_host)
      gather_locally(member_of(call_.root), counts, packed(counts));
    else
      local({});
    messages_.wait(deadline_);
  }

  void scatter() {
    const int root_host = hosts_.placement.host_of[call_.root];
    const bool is_root = hosts_.rank == call_.root;
    if (is_root) {
      for (int rank = 0; rank < size_; ++rank)
        if (hosts_.placement.host_of[rank] != root_host)
          messages_.send(rank, in_ + run_ * static_cast<std::size_t>(rank), run_);
    } else if (hosts_.host() != root_host) {
      messages_.receive(call_.root, out_, run_);
    }
    if (hosts_.host() == root_host) {
      std::vector<std::byte> packed_input;
      if (is_root)
        for (const int rank : local_ranks_) {
          const std::byte* from = in_ + run_ * static_cast<std::size_t>(rank);
          packed_input.insert(packed_input.end(), from, from + run_);
        }
      Call step = bytes_call(CallKind::scatter, packed_input.data(), out_, run_);
      step.root = member_of(call_.root);
      local(step);
    } else {
      local({});
    }
    messages_.wait(deadline_);
  }

  // Messages between ranks of different hosts, shared memory between those of one.
  void all_to_all(std::span<const std::size_t> sends, std::span<const std::size_t> receives) {
    const std::vector<std::size_t> from = packed(sends), to = packed(receives);
    std::vector<std::byte> local_in;
    std::vector<std::size_t> local_sends, local_receives;
    std::size_t local_bytes = 0;
    for (int rank = 0; rank < size_; ++rank) {
      const std::size_t send_bytes = sends[rank] * element_;
      const std::size_t receive_bytes = receives[rank] * element_;
      if (hosts_.placement.host_of[rank] != hosts_.host()) {
        messages_.receive(rank, out_ + to[rank], receive_bytes);
        messages_.send(rank, in_ + from[rank], send_bytes);
        continue;
      }
      if (send_bytes > 0)
        local_in.insert(local_in.end(), in_ + from[rank], in_ + from[rank] + send_bytes);
      local_sends.push_back(send_bytes);
      local_receives.push_back(receive_bytes);
      local_bytes += receive_bytes;
    }
    std::vector<std::byte> local_out(local_bytes);
    Call step =
        bytes_call(CallKind::all_to_all_v, local_in.data(), local_out.data(), local_in.size());
    step.send_counts = local_sends;
    step.receive_counts = local_receives;
    local(step);
    std::size_t at = 0;
    for (std::size_t i = 0; i < local_ranks_.size(); ++i) {
      copy_bytes(out_ + to[local_ranks_[i]], local_out.data() + at, local_receives[i]);
      at += local_receives[i];
    }
    messages_.wait(deadline_);
  }

 private:
  // Where each rank's run starts in a packed buffer, and at the end its size; bytes.
  std::vector<std::size_t> packed(std::span<const std::size_t> counts) const {
    std::vector<std::size_t> offsets{0};
    for (const std::size_t count : counts) offsets.push_back(offsets.back() + count * element_);
    return offsets;
  }

  int member_of(int rank) const {
    return static_cast<int>(std::lower_bound(local_ranks_.begin(), local_ranks_.end(), rank) -
                            local_ranks_.begin());
  }

  Call bytes_call(CallKind kind, const void* in, void* out, std::size_t bytes) const {
    Call step;
    step.kind = kind;
    step.in = in;
    step.out = out;
    step.count = bytes;
    step.sequence = call_.sequence;
    return step;
  }

  void local(Call step) {
    step.sequence = call_.sequence;
    run_local(hosts_, step, deadline_);
  }

  void local_broadcast(std::byte* data, std::size_t bytes, int root) {
    Call step = bytes_call(CallKind::broadcast, data, data, bytes);
    step.root = root;
    local(step);
  }

  // Brings the runs of this host's ranks to their places in the output of `root`.
  void gather_locally(int root, std::span<const std::size_t> counts,
                      const std::vector<std::size_t>& offsets) {
    std::vector<std::size_t> sends(local_ranks_.size(), 0), receives(local_ranks_.size(), 0);
    sends[root] = counts[hosts_.rank] * element_;
    std::vector<std::byte> arrived;
    if (hosts_.channel.index() == root) {
      for (std::size_t i = 0; i < local_ranks_.size(); ++i)
        receives[i] = counts[local_ranks_[i]] * element_;
      arrived.resize(std::accumulate(receives.begin(), receives.end(), std::size_t{0}));
    }
    Call step = bytes_call(CallKind::all_to_all_v, in_, arrived.data(), sends[root]);
    step.send_counts = sends;
    step.receive_counts = receives;
    local(step);
    std::size_t at = 0;
    for (std::size_t i = 0; i < local_ranks_.size() && !arrived.empty(); ++i) {
      // In place, this rank's own run is there already, and may be on its way to other hosts.
      std::byte* to = out_ + offsets[local_ranks_[i]];
      if (to != in_ || local_ranks_[i] != hosts_.rank)
        copy_bytes(to, arrived.data() + at, receives[i]);
      at += receives[i];
    }
  }

  const Hosts& hosts_;
  const Call& call_;
  Deadline deadline_;
  int size_;
  std::size_t element_;
  std::size_t run_;  // bytes of call.count elements
  const std::byte* in_;
  std::byte* out_;
  std::vector<int> local_ranks_;
  Messages messages_;
};

// Every rank gets all ranks' counts, so that all of them see the same difference.
void compare_counts(const Hosts& hosts, const Call& call, Deadline deadline) {
  const std::size_t n = hosts.placement.peers.size();
  std::vector<std::uint64_t> own(call.send_counts.begin(), call.send_counts.end());
  own.insert(own.end(), call.receive_counts.begin(), call.receive_counts.end());
  std::vector<std::uint64_t> all(2 * n * n);
  Call gather;
  gather.kind = CallKind::all_gather;
  gather.dtype = DataType::i64;
  gather.count = 2 * n;
  gather.in = own.data();
  gather.out = all.data();
  gather.sequence = call.sequence;
  Mover(hosts, gather, deadline).all_gather(std::vector<std::size_t>(n, 2 * n));
  for (std::size_t from = 0; from < n; ++from)
    for (std::size_t to = 0; to < n; ++to) {
      const std::uint64_t sent = all[2 * n * from + to];
      const std::uint64_t expected = all[2 * n * to + n + from];
      if (sent != expected)
        raise_mismatch(hosts, call,
                       describe_counts(call, hosts.placement.peers[from], sent,
                                       hosts.placement.peers[to], expected));
    }
}

}  // namespace

void host_move(const Hosts& hosts, const Call& call, Deadline deadline) {
  Mover mover(hosts, call, deadline);
  const std::vector<std::size_t> equal(hosts.placement.peers.size(), call.count);
  switch (call.kind) {
    case CallKind::all_gather:
      return mover.all_gather(equal);
    case CallKind::all_gather_v:
      return mover.all_gather(call.receive_counts);
    case CallKind::gather:
      return mover.gather();
    case CallKind::scatter:
      return mover.scatter();
    case CallKind::all_to_all:
      return mover.all_to_all(equal, equal);
    case CallKind::all_to_all_v:
      compare_counts(hosts, call, deadline);
      return mover.all_to_all(call.send_counts, call.receive_counts);
    default:
      return;
  }
}

}  // namespace cohort::collective

#include "cohort/collective/native/host_reduce.h"

#include "cohort/collective/kernels.h"
#include "cohort/collective/native/exchange.h"
#include "cohort/collective/native/host_moves.h"
#include "cohort/collective/native/partials.h"
#include "cohort/collective/native/slices.h"
#include "cohort/collective/reduce_tree.h"

namespace cohort::collective {

namespace {

constexpr std::size_t kChunkBytes = 4 << 20;

// Memory that the members of this host can reach, for the leader's results.
class SharedMemory {
 public:
  SharedMemory(transport::Arena& arena, std::size_t bytes)
      : arena_(arena), data_(bytes > 0 ? arena.allocate(bytes) : nullptr) {}
  ~SharedMemory() {
    if (data_ != nullptr) arena_.free(data_);
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  transport::Arena& arena_;
  std::byte* data_;
};

// One reduction of `count` elements to all ranks or to one, chunk by chunk:
//   1. the members of each host reduce the host's maximal subtrees into the leader's memory;
//   2. the leaders swap slices of those, each finishes its own slice and sends the result around;
//   3. the members copy the result from their leader.
class HostReduce {
 public:
  HostReduce(const Hosts& hosts, const Call& call, Deadline deadline)
      : hosts_(hosts),
        call_(call),
        deadline_(deadline),
        size_(static_cast<int>(hosts.placement.peers.size())),
        members_(hosts.board.size()),
        element_(size_of(call.dtype)),
        chunk_(std::min(kChunkBytes / element_, std::max<std::size_t>(call.count, 1))),
        reduction_{call.dtype, call.op, size_, call.pre_scale, call.post_scale} {
    for (int host = 0; host < hosts.placement.hosts(); ++host) {
      const std::vector<int> ranks = hosts.placement.ranks_on(host);
      nodes_.push_back(maximal_subtrees(size_, ranks));
      for (const Subtree& node : nodes_.back()) inputs_.push_back({node, node.count > 1});
    }
    const bool shares = hosts.is_leader() && members_ > 1;
    std::size_t partial_bytes = 0, received_bytes = 0;
    for (std::size_t host = 0; host < nodes_.size(); ++host)
      for (const Subtree& node : nodes_[host])
        (static_cast<int>(host) == hosts.host() ? partial_bytes : received_bytes) +=
            chunk_ * bytes_of(node);
    partials_ = std::make_unique<SharedMemory>(arena(), shares ? partial_bytes : 0);
    result_ = std::make_unique<SharedMemory>(arena(), hosts.is_leader() ? chunk_ * element_ : 0);
    if (hosts.is_leader()) received_.resize(received_bytes);
  }

  // `root` -1: every rank gets the result.
  void run(const std::byte* in, std::byte* out, int root) {
    for (std::size_t from = 0; from < call_.count; from += chunk_) {
      const std::size_t count = std::min(chunk_, call_.count - from);
      const std::byte* chunk = in + from * element_;
      if (members_ > 1) reduce_locally(chunk, count);
      if (hosts_.is_leader()) exchange_between_leaders(chunk, count, root);
      const bool receives = root < 0 || root == hosts_.rank;
      const bool host_receives = root < 0 || hosts_.placement.host_of[root] == hosts_.host();
      if (host_receives) hand_out(receives ? out + from * element_ : nullptr, count);
    }
  }

 private:
  transport::Arena& arena() const { return hosts_.board.domain().arena(); }
  const std::vector<Subtree>& own_nodes() const { return nodes_[hosts_.host()]; }
  std::size_t bytes_of(const Subtree& node) const { return collective::bytes_of(node, reduction_); }

  Call step(CallKind kind, std::size_t count) const {
    Call result;
    result.kind = kind;
    result.dtype = call_.dtype;
    result.count = count;
    result.sequence = call_.sequence;
    return result;
  }

  // Step 1: member i reduces slice i of every node of this host into the leader's partials.
  void reduce_locally(const std::byte* chunk, std::size_t count) {
    Board& board = hosts_.board;
    const Call call = step(CallKind::reduce_scatter, count);
    std::size_t out_bytes = 0;
    for (const Subtree& node : own_nodes()) out_bytes += count * bytes_of(node);
    const Agreement agreement =
        agree(board, call,
              {chunk, count * element_, partials_->data(), hosts_.is_leader() ? out_bytes : 0},
              false, deadline_);
    std::byte* target = arena().resolve(board.slot(0, agreement.sequence).record.out);
    const std::vector<int> ranks = hosts_.placement.ranks_on(hosts_.host());
    const Range slice = slice_of(count, element_, board.index(), members_);
    const ExchangePlan plan{members_, [&](int, int piece) -> Extent {
                              const Range part = slice_of(count, element_, piece, members_);
                              return {part.from * element_, part.count * element_};
                            }};
    exchange(
        board, agreement, chunk, plan,
        [&](std::size_t offset, std::span<const Chunk> chunks) {
          const std::size_t at = slice.from + offset / element_;
          std::byte* to = target;
          for (const Subtree& node : own_nodes()) {
            reduce_node(reduction_, node, ranks, chunks, to + at * bytes_of(node));
            to += count * bytes_of(node);
          }
        },
        deadline_);
    run_local(hosts_, step(CallKind::barrier, 0), deadline_);
  }

  // Step 2. Bytes that a leader sends: its nodes of the other hosts' slices, then its result to
  // each other leader that wants it.
  void exchange_between_leaders(const std::byte* chunk, std::size_t count, int root) {
    const int hosts = hosts_.placement.hosts();
    const Range own = slice_of(count, element_, hosts_.host(), hosts);
    std::vector<const std::byte*> data;
    std::byte* received = received_.data();
    Messages contributions(hosts_);
    for (int host = 0; host < hosts; ++host) {
      const Range slice = slice_of(count, element_, host, hosts);
      if (host == hosts_.host()) {
        for_own_nodes(chunk, count, [&](const std::byte* node, std::size_t bytes) {
          data.push_back(node + own.from * bytes);
        });
        continue;
      }
      const int leader = hosts_.leader_of(host);
      for (const Subtree& node : nodes_[host]) {
        contributions.receive(leader, received, own.count * bytes_of(node));
        data.push_back(received);
        received += own.count * bytes_of(node);
      }
      for_own_nodes(chunk, count, [&](const std::byte* node, std::size_t bytes) {
        contributions.send(leader, node + slice.from * bytes, slice.count * bytes);
      });
    }
    contributions.wait(deadline_);

    std::byte* result = result_->data() + own.from * element_;
    TreeReducer(reduction_, {0, size_}, inputs_, false).run(data, {&result, 1}, own.count);

    Messages results(hosts_);
    for (int host = 0; host < hosts; ++host) {
      if (host == hosts_.host()) continue;
      const Range slice = slice_of(count, element_, host, hosts);
      const int root_host = root < 0 ? -1 : hosts_.placement.host_of[root];
      if (root < 0 || root_host == hosts_.host())
        results.receive(hosts_.leader_of(host), result_->data() + slice.from * element_,
                        slice.count * element_);
      if (root < 0 || root_host == host)
        results.send(hosts_.leader_of(host), result, own.count * element_);
    }
    results.wait(deadline_);
  }

  template <typename Visit>
  void for_own_nodes(const std::byte* chunk, std::size_t count, Visit&& visit) const {
    const std::byte* node_data = members_ > 1 ? partials_->data() : chunk;
    for (const Subtree& node : own_nodes()) {
      visit(node_data, bytes_of(node));
      node_data += count * bytes_of(node);
    }
  }

  // Step 3; `out` null: this rank only takes part.
  void hand_out(std::byte* out, std::size_t count) {
    const std::size_t bytes = count * element_;
    if (members_ == 1) {
      if (out != nullptr) copy_bytes(out, result_->data(), bytes);
      return;
    }
    Board& board = hosts_.board;
    const Agreement agreement =
        agree(board, step(CallKind::broadcast, count),
              {result_->data(), hosts_.is_leader() ? bytes : 0}, false, deadline_);
    const ExchangePlan plan{1, [&](int source, int) -> Extent {
                              return {0, source == 0 ? bytes : 0};
                            }};
    exchange(
        board, agreement, result_->data(), plan,
        [&](std::size_t offset, std::span<const Chunk> chunks) {
          if (out != nullptr) copy_bytes(out + offset, chunks[0].data, chunks[0].bytes);
        },
        deadline_);
  }

  const Hosts& hosts_;
  const Call& call_;
  Deadline deadline_;
  int size_;
  int members_;  // of this host
  std::size_t element_;
  std::size_t chunk_;  // elements
  Reduction reduction_;
  std::vector<std::vector<Subtree>> nodes_;  // by host
  std::vector<TreeInput> inputs_;            // all nodes, host by host
  std::unique_ptr<SharedMemory> partials_;   // the leader's: its nodes, one after the other
  std::unique_ptr<SharedMemory> result_;     // the leader's: one chunk
  std::vector<std::byte> received_;          // the leader's: other hosts' nodes of its slice
};

}  // namespace

void host_reduce(const Hosts& hosts, const Call& call, Deadline deadline) {
  const auto* in = static_cast<const std::byte*>(call.in);
  auto* out = static_cast<std::byte*>(call.out);
  HostReduce reduce(hosts, call, deadline);
  if (call.kind == CallKind::all_reduce) return reduce.run(in, out, -1);
  if (call.kind == CallKind::reduce) return reduce.run(in, out, call.root);
  // reduce_scatter: one reduction to each rank in turn.
  const std::size_t run = call.count * size_of(call.dtype);
  for (int rank = 0; rank < static_cast<int>(hosts.placement.peers.size()); ++rank)
    reduce.run(in + run * static_cast<std::size_t>(rank), out, rank);
}

}  // namespace cohort::collective

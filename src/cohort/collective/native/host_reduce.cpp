#include "cohort/collective/native/host_reduce.h"

#include <algorithm>

#include "cohort/collective/native/exchange.h"
#include "cohort/collective/native/host_rounds.h"
#include "cohort/collective/native/messages.h"
#include "cohort/collective/native/partials.h"
#include "cohort/collective/native/spread_failure.h"
#include "cohort/collective/reduction/kernels.h"
#include "cohort/collective/reduction/reduce_tree.h"
#include "cohort/collective/reduction/slices.h"

namespace cohort::collective {

namespace {

// How many rounds after its start a round is reduced, and finished: so many are on their way.
constexpr std::size_t kReduceAfter = 2;
constexpr std::size_t kFinishAfter = 4;

// Memory that the members of this host can reach, for what the leader has of a round.
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

// A round under way. Memory and messages are the leader's.
struct Flight {
  Flight(const Hosts& hosts, std::size_t partial_bytes, std::size_t result_bytes,
         std::size_t received_bytes)
      : partials(hosts.channel.domain().arena(), partial_bytes),
        result(hosts.channel.domain().arena(), result_bytes),
        received(std::make_unique_for_overwrite<std::byte[]>(received_bytes)),
        contributions(hosts),
        results(hosts),
        sends(hosts) {}

  HostRound round;
  SharedMemory partials;  // this host's nodes, one after the other; one member: its input is that
  SharedMemory result;    // unless it goes straight to the output
  std::unique_ptr<std::byte[]> received;  // other hosts' nodes of this host's blocks
  Messages contributions, results, sends;
};

// The steps of a round, which several rounds are in at a time (docs/algorithms.md):
//   begin   the members of each host reduce the host's maximal subtrees into the leader's memory;
//           the leaders send each other what they have of their blocks.
//   reduce  each leader evaluates the rest of the tree on its blocks, and sends the result around.
//   finish  the members copy the result from their leader.
// Every leader posts the messages of a round, and of its rounds, in the same order.
class HostReduce {
 public:
  HostReduce(const Hosts& hosts, const Call& call, Deadline deadline)
      : hosts_(hosts),
        call_(call),
        deadline_(deadline),
        size_(static_cast<int>(hosts.placement.peers.size())),
        members_(hosts.channel.size()),
        element_(size_of(call.dtype)),
        in_(static_cast<const std::byte*>(call.in)),
        out_(static_cast<std::byte*>(call.out)),
        reduction_{call.dtype, call.op, size_, call.pre_scale, call.post_scale},
        rounds_(call, hosts.placement),
        nodes_(nodes_by_host()),
        reducer_(reduction_, {0, size_}, inputs(), false) {
    const bool is_leader = hosts.is_leader();
    const std::size_t most = rounds_.most_elements();
    std::size_t own_bytes = bytes_of(nodes_[hosts.host()], reduction_), other_bytes = 0;
    for (int host = 0; host < hosts.placement.hosts(); ++host)
      if (host != hosts.host()) other_bytes += bytes_of(nodes_[host], reduction_);
    const bool straight = members_ == 1 && receives();
    for (std::size_t i = 0; i < std::min(rounds_.count(), kFinishAfter + 1); ++i)
      flights_.push_back(std::make_unique<Flight>(
          hosts, is_leader && members_ > 1 ? most * own_bytes : 0,
          is_leader && !straight ? most * element_ : 0, is_leader ? most * other_bytes : 0));
  }

  void run() {
    const std::size_t rounds = rounds_.count();
    const auto in_flight = [&](std::size_t k) -> Flight& { return *flights_[k % flights_.size()]; };
    for (std::size_t k = 0; k < rounds + kFinishAfter; ++k) {
      if (k < rounds) begin(in_flight(k), k);
      if (k >= kReduceAfter && k - kReduceAfter < rounds && hosts_.is_leader())
        reduce(in_flight(k - kReduceAfter));
      if (k >= kFinishAfter) finish(in_flight(k - kFinishAfter));
    }
  }

 private:
  bool scatters() const { return call_.kind == CallKind::reduce_scatter; }
  bool receives() const { return call_.kind != CallKind::reduce || call_.root == hosts_.rank; }
  // Whether a host gets the results of blocks that others reduce.
  bool wants_results(int host) const {
    return call_.kind == CallKind::all_reduce ||
           (call_.kind == CallKind::reduce && hosts_.placement.host_of[call_.root] == host);
  }

  std::vector<std::vector<Subtree>> nodes_by_host() const {
    std::vector<std::vector<Subtree>> nodes;
    for (int host = 0; host < hosts_.placement.hosts(); ++host)
      nodes.push_back(maximal_subtrees(size_, hosts_.placement.ranks_on(host)));
    return nodes;
  }
  std::vector<TreeInput> inputs() const {  // all nodes, host by host
    std::vector<TreeInput> inputs;
    for (const auto& nodes : nodes_)
      for (const Subtree& node : nodes) inputs.push_back({node, node.count > 1});
    return inputs;
  }
  std::size_t bytes_of(const Subtree& node) const { return collective::bytes_of(node, reduction_); }
  static std::size_t bytes_of(const std::vector<Subtree>& nodes, const Reduction& reduction) {
    return collective::bytes_of(nodes, reduction);
  }

  // Calls visit(where this host's values of a node for a block are, their bytes).
  template <typename Visit>
  void for_own_nodes(const Flight& flight, const HostBlock& block, Visit&& visit) const {
    const std::byte* values = flight.partials.data();
    for (const Subtree& node : nodes_[hosts_.host()]) {
      const std::size_t bytes = bytes_of(node);
      visit(members_ == 1 ? in_ + block.offset * element_ : values + block.at * bytes,
            block.count * bytes);
      values += flight.round.elements * bytes;
    }
  }

  std::byte* result_of(const Flight& flight, const HostBlock& block) const {
    if (members_ > 1 || !receives()) return flight.result.data() + block.at * element_;
    return out_ + (scatters() ? flight.round.from : block.offset) * element_;
  }

  void begin(Flight& flight, std::size_t index) {
    flight.round = rounds_.round(index);
    const HostRound& round = flight.round;
    if (members_ > 1) {
      if (scatters())
        for (const HostBlock& block : round.blocks) reduce_locally(flight, block);
      else
        reduce_locally(flight, {hosts_.host(), round.from, round.elements, 0});
    }
    if (!hosts_.is_leader()) return;
    std::byte* received = flight.received.get();
    for (const HostBlock& block : round.blocks) {
      if (block.host != hosts_.host()) {
        for_own_nodes(flight, block, [&](const std::byte* values, std::size_t bytes) {
          flight.sends.send(hosts_.leader_of(block.host), values, bytes);
        });
        continue;
      }
      for_other_nodes([&](int host, const Subtree& node) {
        flight.contributions.receive(hosts_.leader_of(host), received,
                                     block.count * bytes_of(node));
        received += block.count * bytes_of(node);
      });
    }
  }

  template <typename Visit>
  void for_other_nodes(Visit&& visit) const {
    for (int host = 0; host < hosts_.placement.hosts(); ++host)
      if (host != hosts_.host())
        for (const Subtree& node : nodes_[host]) visit(host, node);
  }

  void reduce(Flight& flight) {
    flight.contributions.wait(deadline_);
    const std::byte* received = flight.received.get();
    for (const HostBlock& block : flight.round.blocks) {
      if (block.host != hosts_.host()) continue;
      data_.clear();
      for (int host = 0; host < hosts_.placement.hosts(); ++host) {
        if (host == hosts_.host()) {
          for_own_nodes(flight, block,
                        [&](const std::byte* values, std::size_t) { data_.push_back(values); });
          continue;
        }
        for (const Subtree& node : nodes_[host]) {
          data_.push_back(received);
          received += block.count * bytes_of(node);
        }
      }
      std::byte* result = result_of(flight, block);
      reducer_.run(data_, {&result, 1}, block.count);
    }
    swap_results(flight);
  }

  void swap_results(Flight& flight) {
    if (scatters()) return;
    const HostBlock& own = flight.round.blocks[hosts_.host()];
    for (const HostBlock& block : flight.round.blocks) {
      if (block.host == hosts_.host()) continue;
      const int leader = hosts_.leader_of(block.host);
      if (wants_results(hosts_.host()))
        flight.results.receive(leader, result_of(flight, block), block.count * element_);
      if (wants_results(block.host))
        flight.sends.send(leader, result_of(flight, own), own.count * element_);
    }
  }

  void finish(Flight& flight) {
    flight.results.wait(deadline_);
    flight.sends.wait(deadline_);
    if (members_ > 1 && (scatters() || wants_results(hosts_.host()))) hand_out(flight);
  }

  Call step(CallKind kind, std::size_t count) const {
    Call result;
    result.kind = kind;
    result.dtype = call_.dtype;
    result.count = count;
    result.sequence = call_.sequence;
    return result;
  }

  // Member i reduces slice i of the block for every node of this host into the leader's partials.
  void reduce_locally(const Flight& flight, const HostBlock& block) {
    LocalChannel& channel = hosts_.channel;
    const std::size_t elements = flight.round.elements;
    const std::vector<Subtree>& nodes = nodes_[hosts_.host()];
    const std::byte* input = in_ + block.offset * element_;
    const Agreement agreement =
        agree(channel, step(CallKind::reduce_scatter, block.count),
              {input, block.count * element_, flight.partials.data(),
               hosts_.is_leader() ? elements * bytes_of(nodes, reduction_) : 0},
              false, deadline_);
    std::byte* target =
        channel.domain().arena().resolve(channel.slot(0, agreement.sequence).record.out);
    const std::vector<int> ranks = hosts_.placement.ranks_on(hosts_.host());
    const Range slice = slice_of(block.count, element_, channel.index(), members_);
    const ExchangePlan plan{members_, [&](int, int piece) -> Extent {
                              const Range part = slice_of(block.count, element_, piece, members_);
                              return {part.from * element_, part.count * element_};
                            }};
    exchange(
        channel, agreement, input, plan,
        [&](std::size_t offset, std::span<const Chunk> chunks) {
          const std::size_t at = block.at + slice.from + offset / element_;
          std::byte* to = target;
          for (const Subtree& node : nodes) {
            reduce_node(reduction_, node, ranks, chunks, to + at * bytes_of(node));
            to += elements * bytes_of(node);
          }
        },
        deadline_);
    run_local(hosts_, step(CallKind::barrier, 0), deadline_);
  }

  // Every member that gets a result copies its part of it from the leader's memory.
  void hand_out(const Flight& flight) {
    LocalChannel& channel = hosts_.channel;
    const HostRound& round = flight.round;
    const Agreement agreement =
        agree(channel, step(CallKind::broadcast, round.elements),
              {flight.result.data(), hosts_.is_leader() ? round.elements * element_ : 0}, false,
              deadline_);
    const std::vector<int> ranks = hosts_.placement.ranks_on(hosts_.host());
    const ExchangePlan plan{scatters() ? members_ : 1, [&](int source, int piece) -> Extent {
                              if (source != 0) return {};
                              if (!scatters()) return {0, round.elements * element_};
                              const HostBlock& block =
                                  round.blocks[static_cast<std::size_t>(ranks[piece])];
                              return {block.at * element_, block.count * element_};
                            }};
    exchange(
        channel, agreement, flight.result.data(), plan,
        [&](std::size_t offset, std::span<const Chunk> chunks) {
          if (receives())
            copy_bytes(out_ + round.from * element_ + offset, chunks[0].data, chunks[0].bytes);
        },
        deadline_);
  }

  const Hosts& hosts_;
  const Call& call_;
  Deadline deadline_;
  int size_;
  int members_;  // of this host
  std::size_t element_;
  const std::byte* in_;
  std::byte* out_;
  Reduction reduction_;
  HostRounds rounds_;
  std::vector<std::vector<Subtree>> nodes_;  // by host
  TreeReducer reducer_;
  std::vector<std::unique_ptr<Flight>> flights_;
  std::vector<const std::byte*> data_;  // the inputs of one reduction
};

}  // namespace

void host_reduce(const Hosts& hosts, const Call& call, Deadline deadline) {
  HostReduce reduce(hosts, call, deadline);
  // The other hosts hear of a failure before the messages under way are given up: its cause first.
  or_spread_failure(
      hosts.channel, hosts.remote, [&] { return describe(call); }, [&] { reduce.run(); });
}

}  // namespace cohort::collective

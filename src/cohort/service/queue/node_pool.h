#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "cohort/jobspec/resolved_job.h"

namespace cohort::service {

// Thousandths of a core, bytes of memory, GPUs: whole numbers, so that what is taken and given back
// leaves no rest.
using Amount = std::array<std::int64_t, 3>;

Amount amount_of(const jobspec::Size& size);

// How often `need` fits into `there`; never less than 0.
inline std::int64_t times_in(const Amount& there, const Amount& need) {
  for (std::size_t i = 0; i < need.size(); ++i)
    if (need[i] > 0 && there[i] < need[i]) return 0;
  std::int64_t times = std::numeric_limits<std::int32_t>::max();
  for (std::size_t i = 0; i < need.size(); ++i)
    if (need[i] > 0) times = std::min(times, there[i] / need[i]);
  return times;
}

// One instance of a job: its node, and which of the node's GPUs are its own.
struct Placed {
  int node = 0;
  std::vector<int> gpus;  // indices, rising

  bool operator==(const Placed&) const = default;
};

// What is free on each node, and how many instances of each size that is asked for fit at present.
// The latter is kept up to date with every change, so that to ask costs nothing.
//
// A value; pure; confined to one thread. At most 64 GPUs a node.
class NodePool {
 public:
  explicit NodePool(const std::vector<jobspec::Size>& nodes);

  int nodes() const { return static_cast<int>(nodes_.size()); }
  const Amount& total() const { return total_; }
  const Amount& total_free() const { return total_free_; }
  const Amount& size_of(int node) const { return nodes_[static_cast<std::size_t>(node)].size; }
  const Amount& free_of(int node) const { return nodes_[static_cast<std::size_t>(node)].free; }

  // Sizes that fitting() knows, counted: as often released as used.
  void use_size(const Amount& size);
  void release_size(const Amount& size);

  std::int64_t fitting(const Amount& size) const;  // now; a size in use
  bool something_fits() const;                     // of any size in use
  std::int64_t fitting_when_empty(const Amount& size) const;

  // `count` instances of `size` on the nodes of `room` (how many each takes; at least `count`
  // together), on as few nodes as that allows, and of these on the fullest.
  std::vector<Placed> take(const Amount& size, int count, const std::vector<std::int64_t>& room);
  std::vector<Placed> take(const Amount& size, int count);  // wherever it fits; fitting() >= count
  // Exactly these, of nodes that are there: what a job holds that was started earlier. What is free
  // may become less than nothing, on nodes that were larger then.
  void take_placed(const Amount& size, const std::vector<Placed>& placement);
  void give_back(const Amount& size, const std::vector<Placed>& placement);

 private:
  struct Node {
    Amount size{};
    Amount free{};
    std::uint64_t free_gpus = 0;  // a bit each
  };
  struct SizeCount {
    int users = 0;
    std::int64_t fitting = 0;
  };

  void change(Node& node, const Amount& size, const Placed& placed, int sign);

  std::vector<Node> nodes_;
  Amount total_{};
  Amount total_free_{};
  std::map<Amount, SizeCount> sizes_;
};

// Which nodes take how many of `count` instances, `room` being how many each could: the tightest
// node that takes all that is left, else the one that takes most. (node, instances), `count` in all.
std::vector<std::pair<int, int>> choose_nodes(const std::vector<std::int64_t>& room, int count);

}  // namespace cohort::service

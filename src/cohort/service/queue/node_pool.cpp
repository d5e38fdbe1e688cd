#include "cohort/service/queue/node_pool.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::service {
namespace {

constexpr int kMostGpus = 64;

std::uint64_t lowest_bits(std::int64_t count) {
  return count >= kMostGpus ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

}  // namespace

// Rounded down, so that equal parts of a machine fit into it: 0.667 cores would fit twice into 2.
Amount amount_of(const jobspec::Size& size) {
  constexpr double kRounding = 1e-6;  // of the multiplication: 0.7 cores are 700 thousandths
  return {std::llround(std::floor(size.cores * 1000 + kRounding)),
          static_cast<std::int64_t>(size.memory_bytes), size.gpus};
}

NodePool::NodePool(const std::vector<jobspec::Size>& nodes) {
  for (const auto& size : nodes) {
    COHORT_CHECK(size.gpus <= kMostGpus, "a node with {} GPUs", size.gpus);
    const Amount amount = amount_of(size);
    nodes_.push_back({amount, amount, lowest_bits(size.gpus)});
    for (std::size_t i = 0; i < amount.size(); ++i) total_[i] += amount[i];
  }
  total_free_ = total_;
}

void NodePool::use_size(const Amount& size) {
  SizeCount& count = sizes_[size];
  if (count.users++ > 0) return;
  for (const Node& node : nodes_) count.fitting += times_in(node.free, size);
}

void NodePool::release_size(const Amount& size) {
  const auto found = sizes_.find(size);
  COHORT_CHECK(found != sizes_.end(), "a size that is not in use");
  if (--found->second.users == 0) sizes_.erase(found);
}

std::int64_t NodePool::fitting(const Amount& size) const { return sizes_.at(size).fitting; }

bool NodePool::something_fits() const {
  return std::any_of(sizes_.begin(), sizes_.end(),
                     [](const auto& size) { return size.second.fitting > 0; });
}

std::int64_t NodePool::fitting_when_empty(const Amount& size) const {
  std::int64_t fitting = 0;
  for (const Node& node : nodes_) fitting += times_in(node.size, size);
  return fitting;
}

std::vector<Placed> NodePool::take(const Amount& size, int count) {
  std::vector<std::int64_t> room;
  room.reserve(nodes_.size());
  for (const Node& node : nodes_) room.push_back(times_in(node.free, size));
  return take(size, count, room);
}

std::vector<Placed> NodePool::take(const Amount& size, int count,
                                   const std::vector<std::int64_t>& room) {
  std::vector<Placed> placement;
  for (const auto& [index, instances] : choose_nodes(room, count)) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    for (int i = 0; i < instances; ++i) {
      Placed placed{index, {}};
      for (int gpu = 0; static_cast<std::int64_t>(placed.gpus.size()) < size[2]; ++gpu) {
        COHORT_CHECK(gpu < kMostGpus, "no GPU is free on node {}", index);
        if (node.free_gpus >> gpu & 1) placed.gpus.push_back(gpu);
      }
      change(node, size, placed, -1);
      placement.push_back(std::move(placed));
    }
  }
  return placement;
}

void NodePool::take_placed(const Amount& size, const std::vector<Placed>& placement) {
  for (const Placed& placed : placement)
    if (placed.node < nodes())
      change(nodes_[static_cast<std::size_t>(placed.node)], size, placed, -1);
}

void NodePool::give_back(const Amount& size, const std::vector<Placed>& placement) {
  for (const Placed& placed : placement)
    if (placed.node < nodes())
      change(nodes_[static_cast<std::size_t>(placed.node)], size, placed, 1);
}

void NodePool::change(Node& node, const Amount& size, const Placed& placed, int sign) {
  const Amount before = node.free;
  for (std::size_t i = 0; i < size.size(); ++i) {
    node.free[i] += sign * size[i];
    total_free_[i] += sign * size[i];
  }
  for (const int gpu : placed.gpus) {
    const std::uint64_t bit = std::uint64_t{1} << gpu & lowest_bits(node.size[2]);
    node.free_gpus = sign > 0 ? node.free_gpus | bit : node.free_gpus & ~bit;
  }
  for (auto& [other, count] : sizes_)
    count.fitting += times_in(node.free, other) - times_in(before, other);
}

std::vector<std::pair<int, int>> choose_nodes(const std::vector<std::int64_t>& room, int count) {
  // by_room[k]: the nodes on which k instances have room; the last one: count or more.
  std::vector<std::vector<int>> by_room(static_cast<std::size_t>(count) + 1);
  for (std::size_t node = 0; node < room.size(); ++node) {
    const auto k = std::min<std::int64_t>(room[node], count);
    if (k > 0) by_room[static_cast<std::size_t>(k)].push_back(static_cast<int>(node));
  }
  // What has more room than the rest needs is told apart no further: the tightest of these first.
  std::stable_sort(by_room.back().begin(), by_room.back().end(), [&](int a, int b) {
    return room[static_cast<std::size_t>(a)] < room[static_cast<std::size_t>(b)];
  });
  std::vector<std::size_t> used(by_room.size());
  std::vector<std::pair<int, int>> chosen;
  std::size_t largest = by_room.size() - 1;
  for (auto rest = static_cast<std::size_t>(count); rest > 0;) {
    const auto has = [&](std::size_t k) { return used[k] < by_room[k].size(); };
    std::size_t k = rest;
    while (k < by_room.size() && !has(k)) ++k;
    if (k == by_room.size()) {
      while (largest > 0 && !has(largest)) --largest;
      COHORT_CHECK(largest > 0, "{} instances have no room", rest);
      k = largest;
    }
    const std::size_t here = std::min(k, rest);
    chosen.emplace_back(by_room[k][used[k]++], static_cast<int>(here));
    rest -= here;
  }
  return chosen;
}

}  // namespace cohort::service

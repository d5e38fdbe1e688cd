#include "cohort/ps/server/combine.h"

#include <cmath>
#include <cstring>

#include "cohort/base/error.h"
#include "cohort/collective/reduction/shards.h"

namespace cohort::ps {

namespace {

collective::DataType data_type(ElementType type) {
  return type == ElementType::f32 ? collective::DataType::f32 : collective::DataType::f64;
}

template <typename T>
std::size_t find_not_finite(std::span<const std::byte> bytes) {
  const std::size_t count = bytes.size() / sizeof(T);
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof value);
    if (!std::isfinite(value)) return i;
  }
  return count;
}

}  // namespace

Combiner::Combiner(int workers, int shards) : workers_(workers) {
  std::vector<collective::TreeInput> inputs;
  for (int worker = 0; worker < workers; ++worker) {
    const collective::ShardPlan plan(shards, collective::shards_of(worker, workers, shards));
    nodes_.push_back(static_cast<int>(plan.nodes().size()));
    for (const collective::Subtree& node : plan.nodes()) inputs.push_back({node, node.count > 1});
  }
  for (ElementType type : {ElementType::f32, ElementType::f64}) {
    const collective::Reduction sum{data_type(type), collective::ReduceOp::sum, shards, 1, 1};
    all_.emplace(type, collective::TreeReducer(sum, collective::Subtree{0, shards}, inputs, false));
  }
}

int Combiner::nodes(int worker) const { return nodes_[static_cast<std::size_t>(worker)]; }

const std::byte* Combiner::sum_nodes(const Contribution& contribution, ElementType type,
                                     std::size_t elements, std::vector<std::byte>& scratch) const {
  const int count = nodes(contribution.worker);
  const std::byte* from = contribution.bytes.data();
  if (count == 1) return from;
  const std::size_t bytes = elements * size_of(type);
  const auto& kernels = collective::kernels(data_type(type), collective::ReduceOp::sum);
  if (scratch.size() < bytes) scratch.resize(bytes);
  kernels.pair(scratch.data(), from, from + bytes, elements);
  for (int node = 2; node < count; ++node)
    kernels.join_leaf(scratch.data(), from + static_cast<std::size_t>(node) * bytes, elements);
  return scratch.data();
}

std::span<const std::byte> Combiner::combine(std::span<const Contribution* const> used,
                                             ElementType type, std::size_t elements) {
  COHORT_CHECK(!used.empty(), "an update of nothing");
  const std::size_t bytes = elements * size_of(type);
  for (const Contribution* contribution : used)
    COHORT_CHECK(
        contribution->bytes.size() == bytes * static_cast<std::size_t>(nodes(contribution->worker)),
        "worker/{} gave {} bytes", contribution->worker, contribution->bytes.size());
  const bool all = used.size() == static_cast<std::size_t>(workers_);
  std::vector<const std::byte*> inputs;
  double weight = 0;
  if (all) {
    for (const Contribution* contribution : used)
      for (int node = 0; node < nodes(contribution->worker); ++node)
        inputs.push_back(contribution->bytes.data() + static_cast<std::size_t>(node) * bytes);
  } else {
    if (partials_.size() < used.size()) partials_.resize(used.size());
    for (std::size_t i = 0; i < used.size(); ++i) {
      inputs.push_back(sum_nodes(*used[i], type, elements, partials_[i]));
      weight += used[i]->weight;
    }
  }
  const double scale = !all && weight > 0 ? 1 / weight : 1;
  if (inputs.size() == 1 && scale == 1) return {inputs[0], bytes};
  if (result_.size() < bytes) result_.resize(bytes);
  std::byte* out = result_.data();
  if (all) {
    all_.at(type).run(inputs, {&out, 1}, elements);
  } else {
    const collective::Reduction sum{data_type(type), collective::ReduceOp::sum,
                                    static_cast<int>(inputs.size()), 1, scale};
    collective::TreeReducer(sum).run(inputs, {&out, 1}, elements);
  }
  return {out, bytes};
}

std::size_t first_not_finite(std::span<const std::byte> bytes, ElementType type) {
  return type == ElementType::f32 ? find_not_finite<float>(bytes) : find_not_finite<double>(bytes);
}

}  // namespace cohort::ps

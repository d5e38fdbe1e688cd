#include "cohort/train/loop/graphed_shards.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/parallel/tensors/random_scope.h"

namespace cohort::train {
namespace {

// LibTorch measures algorithms of convolutions and makes what lasts in the first, the optimizer its
// state; the third finds all in place.
constexpr int kTimesBefore = 3;
// Each keeps memory for all that it computes. A program whose batches have more shapes than this
// computes the rest as they are.
constexpr std::size_t kMostGraphs = 8;

// Where LibTorch's generator of the host stands.
torch::Tensor state_of_host_generator() {
  at::Generator generator = parallel::generator_of_this_thread(torch::kCPU);
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

}  // namespace

GraphedShards::Graph& GraphedShards::graph_of(const Shard& shard,
                                              std::vector<std::string> arrangement) {
  const auto is_alike = [&](const auto& graph) {
    return graph->shard == shard.number && (agree_ || graph->arrangement == arrangement);
  };
  // What was recorded with other constants is not needed again, but for those of a step of another
  // size: a rate's schedule is no constant.
  std::erase_if(graphs_, [&](const auto& graph) {
    return is_alike(graph) && graph->constants != shard.constants &&
           graph->constants.front() == shard.constants.front();
  });
  const auto found = std::find_if(graphs_.begin(), graphs_.end(), [&](const auto& graph) {
    return is_alike(graph) && graph->constants == shard.constants;
  });
  if (found != graphs_.end()) {
    (*found)->varies |= (*found)->arrangement != arrangement;
    return **found;
  }
  auto graph = std::make_unique<Graph>();
  graph->shard = shard.number;
  graph->constants = shard.constants;
  graph->arrangement = std::move(arrangement);
  graphs_.push_back(std::move(graph));
  return *graphs_.back();
}

Measured GraphedShards::run(const Shard& shard, const AnyBatch& batch) {
  if (!is_on()) return shard.compute(batch, false);
  std::optional<std::vector<std::string>> arrangement = batch.arrangement();
  if (!arrangement) {
    switch_off("batches hold, or may hold, other values than tensors, and a graph would keep them");
    return shard.compute(batch, false);
  }
  Graph& graph = graph_of(shard, std::move(*arrangement));
  if (!graph.work) {
    const auto recorded = std::count_if(graphs_.begin(), graphs_.end(),
                                        [](const auto& each) { return each->work != nullptr; });
    const bool may = static_cast<std::size_t>(recorded) < kMostGraphs;
    if (++graph.times <= kTimesBefore) return compute_watched(shard, batch, graph);
    if (!may || !record_with_others(shard, batch, graph)) return shard.compute(batch, false);
  }
  if (graph.varies)  // the others replay theirs
    throw InvalidInput("batches of this step have another shape than those that were recorded",
                       {.advice = "Set TrainerOptions::cuda_graph to off (--cuda_graph off), or "
                                  "give all batches of a size one shape."});
  graph.batch.copy_from(batch);
  shard.before_replay();
  graph.work->replay();
  shard.after_replay();
  Measured measured = graph.measured;
  if (measured.row.defined()) measured.row = measured.row.clone();
  return measured;
}

// A graph would draw the same numbers of the host every time.
Measured GraphedShards::compute_watched(const Shard& shard, const AnyBatch& batch, Graph& graph) {
  const torch::Tensor before = state_of_host_generator();
  Measured measured = shard.compute(batch, false);
  graph.draws_on_host |= !state_of_host_generator().equal(before);
  return measured;
}

// All replicas come here in the same step, and have the graph or not alike.
bool GraphedShards::record_with_others(const Shard& shard, const AnyBatch& batch, Graph& graph) {
  std::string reason;
  if (graph.varies)
    reason = "batches have other shapes from step to step";
  else if (graph.draws_on_host)
    reason =
        "random numbers of LibTorch's generator of the CPU are drawn while it is computed, by the "
        "step "
        "or by the data set";
  else
    reason = record(shard, batch, graph);
  if (agree_ && !agree_(reason.empty()) && reason.empty())
    reason = "another replica could not record it";
  if (reason.empty()) {
    if (speaks_ && graphs_.size() == 1)
      log::info(
          "steps are started as a CUDA graph from here on (cuda_graph = off computes them one "
          "kernel at a time)");
    return true;
  }
  switch_off(reason);
  return false;
}

std::string GraphedShards::record(const Shard& shard, const AnyBatch& batch, Graph& graph) {
  try {
    graph.batch = batch.clone();
    graph.work = std::make_unique<parallel::RecordedWork>(device_);
    shard.before_replay();
    graph.work->record([&] { graph.measured = shard.compute(graph.batch, true); });
  } catch (const std::exception& error) {
    const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
    std::string reason = of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
    reason = reason.substr(0, reason.find('\n'));
    if (!shard.begin_again())
      throw Error(fmt::format("the step could not be recorded as a CUDA graph: {}", reason),
                  {.advice = "Set TrainerOptions::cuda_graph to off."});
    return reason;
  }
  return {};
}

void GraphedShards::switch_off(const std::string& reason) {
  if (!is_on()) return;
  if (wanted_ == CudaGraph::on)
    throw InvalidInput(fmt::format("cuda_graph is on, but {}", reason),
                       {.advice = "Set it to automatic or off, or change what is in its way."});
  graphs_.clear();
  wanted_ = CudaGraph::off;
  if (speaks_) log::info("no CUDA graph: {}", reason);
}

}  // namespace cohort::train

#include "cohort/parallel/cuda/recorded_work.h"

#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <mutex>

namespace cohort::parallel {

namespace {

// Knows whether capture_end() came as far as to leave all else to the destructor.
struct Graph : at::cuda::CUDAGraph {
  template <typename G = Graph>
  bool is_captured() const {
    const G& self = *this;
    if constexpr (requires { self.capture_ended_; })
      return self.capture_ended_;
    else  // LibTorch before 2.8
      return self.has_graph_ || self.has_graph_exec_;
  }
};

// Calls what may fail because it was done already.
template <typename Call>
void try_to(Call call) {
  try {
    call();
  } catch (const std::exception&) {
  }
}

// A generator that believes that it is being recorded refuses to draw: the same state in a new object.
template <typename Generator>
void renew_state(Generator generator) {
  const std::lock_guard lock(generator.mutex());
  if constexpr (requires { generator.graphsafe_set_state(generator.clone()); })
    generator.graphsafe_set_state(generator.clone());
}

// After a recording that the driver broke off: LibTorch's capture_end() then throws before it has put
// back what capture_begin() changed, and the allocator would go on as in a recording for ever.
void put_back(torch::Device device, at::cuda::MempoolId_t pool) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  try_to([&] { allocator::endAllocateToPool(device.index(), pool); });
  try_to([&] { allocator::releasePool(device.index(), pool); });
  try_to([&] { renew_state(at::cuda::detail::getDefaultCUDAGenerator(device.index())); });
}

}  // namespace

struct RecordedWork::State {
  torch::Device device;
  at::cuda::MempoolId_t pool;
  Graph graph;
};

RecordedWork::RecordedWork(torch::Device device)
    : state_(new State{.device = device, .pool = at::cuda::graph_pool_handle(), .graph = {}}) {}

RecordedWork::~RecordedWork() = default;

void RecordedWork::record(const std::function<void()>& work) {
  // Memory that was taken before the work had a pool of its own is not needed a second time.
  c10::cuda::CUDACachingAllocator::emptyCache();
  Graph& graph = state_->graph;
  graph.capture_begin(state_->pool, cudaStreamCaptureModeThreadLocal);
  bool ended = false;
  try {
    work();
    ended = true;
    graph.capture_end();
  } catch (...) {
    if (!ended) try_to([&] { graph.capture_end(); });
    if (!graph.is_captured()) put_back(state_->device, state_->pool);
    (void)cudaGetLastError();  // it is thrown
    throw;
  }
}

void RecordedWork::replay() { state_->graph.replay(); }

}  // namespace cohort::parallel

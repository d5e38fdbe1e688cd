#include "cohort/parallel/cuda/recorded_work.h"

#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/version.h>
#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 208
#include <ATen/core/CachingHostAllocator.h>
#endif

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

// Page-locked memory has a pool for the recording too, in newer releases.
template <typename Pool>
void put_back_host_memory(const Pool& pool) {
#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 208
  at::HostAllocator* host = at::getHostAllocator(at::kCUDA);
  if constexpr (requires { host->release_pool(pool); }) {
    try_to([&] { host->end_allocate_to_pool(pool); });
    try_to([&] { host->release_pool(pool); });
  }
#else
  static_cast<void>(pool);
#endif
}

// After a recording that the driver broke off: LibTorch's capture_end() then throws before it has put
// back what capture_begin() changed, and the allocators would go on as in a recording for ever.
void put_back(torch::Device device, at::cuda::MempoolId_t pool) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  try_to([&] { allocator::endAllocateToPool(device.index(), pool); });
  try_to([&] { allocator::releasePool(device.index(), pool); });
  put_back_host_memory(pool);
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
  bool ended = false;
  try {
    graph.capture_begin(state_->pool, cudaStreamCaptureModeThreadLocal);
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

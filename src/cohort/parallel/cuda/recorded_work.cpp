#include "cohort/parallel/cuda/recorded_work.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include "cohort/base/error.h"

namespace cohort::parallel {

struct RecordedWork::State {
  torch::Device device;
  at::cuda::CUDAGraph graph;
};

RecordedWork::RecordedWork(torch::Device device)
    : state_(new State{.device = device, .graph = {}}) {}

RecordedWork::~RecordedWork() = default;

void RecordedWork::record(const std::function<void()>& work) {
  // Memory that was taken before the work had a pool of its own is not needed a second time.
  c10::cuda::CUDACachingAllocator::emptyCache();
  at::cuda::CUDAGraph& graph = state_->graph;
  graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  try {
    work();
  } catch (...) {
    try {
      graph.capture_end();  // which fails as well, and ends the recording
    } catch (const std::exception&) {
    }
    (void)cudaGetLastError();  // it was reported
    throw;
  }
  try {
    graph.capture_end();
  } catch (const c10::Error& error) {
    (void)cudaGetLastError();
    throw Error(fmt::format("the work could not be recorded as a CUDA graph: {}",
                            error.what_without_backtrace()));
  }
}

void RecordedWork::replay() { state_->graph.replay(); }

}  // namespace cohort::parallel

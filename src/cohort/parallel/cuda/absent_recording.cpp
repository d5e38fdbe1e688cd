// In the place of recorded_work.cpp where LibTorch has no CUDA.
#include "cohort/base/error.h"
#include "cohort/parallel/cuda/recorded_work.h"

namespace cohort::parallel {

struct RecordedWork::State {};

RecordedWork::RecordedWork(torch::Device) {
  throw InvalidInput("this build of Cohort has no CUDA, whose graphs record work",
                     {.advice = "Build it with a LibTorch for CUDA."});
}
RecordedWork::~RecordedWork() = default;
void RecordedWork::record(const std::function<void()>&) {}
void RecordedWork::replay() {}

}  // namespace cohort::parallel

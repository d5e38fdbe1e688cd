#include "cohort/train/data/stream_cursors.h"

#include "cohort/base/error.h"
#include "cohort/train/data/image_store.h"

namespace cohort::train {
namespace {

constexpr const char* kStreamAdvice =
    "Give IterableDataset the number of samples that every epoch has, or make the stream the same "
    "for the same seed and epoch.";

}  // namespace

void check_stream_index(std::int64_t index, std::int64_t samples) {
  check_indices({&index, 1}, samples);
}

void refuse_short_stream(std::int64_t epoch, std::int64_t ended, std::int64_t samples) {
  throw InvalidInput(fmt::format("the stream of epoch {} ended after {} samples, an epoch has {}",
                                 epoch, ended, samples),
                     {.advice = kStreamAdvice});
}

void refuse_long_stream(std::int64_t epoch, std::int64_t samples) {
  throw InvalidInput(fmt::format("the stream of epoch {} goes on after {} samples, which were "
                                 "counted before training",
                                 epoch, samples),
                     {.advice = kStreamAdvice});
}

}  // namespace cohort::train

#pragma once

#include <cstdint>
#include <span>

// How far two processes' clocks are apart. Pure but for trace_now().
namespace cohort::report {

// Nanoseconds of CLOCK_MONOTONIC: never goes back; its zero is the host's own.
std::int64_t trace_now();

// One question and its answer: asked at `sent`, answered when the other clock stood at `remote`,
// heard at `received`. sent and received are of the asker's clock.
struct ClockSample {
  std::int64_t sent = 0;
  std::int64_t remote = 0;
  std::int64_t received = 0;
};

struct ClockAlignment {
  std::int64_t offset_ns = 0;       // remote clock = own clock + offset
  std::int64_t uncertainty_ns = 0;  // the true offset is at most this far away
};

// Takes the sample with the shortest round trip, which leaves the answer the least room to have
// been made earlier or later than half-way. Throws Error when there is none, or when one was
// received before it was sent.
ClockAlignment align_clocks(std::span<const ClockSample> samples);

}  // namespace cohort::report

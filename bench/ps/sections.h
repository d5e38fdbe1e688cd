#pragma once

#include <cstdint>

#include "bench/ps/job.h"
#include "bench/targets.h"

// The questions of ps_bench, one a function: each measures, prints a table, records its figures and
// says what was promised. Rounds of contestants take turns; a ratio is taken inside its round.
namespace cohort::bench {

constexpr std::uint64_t kModelElements = 20'000'000;  // 80 MB of f32

inline double median(const std::vector<double>& values) { return Spread(values).median; }

struct Size {
  int rounds = 3;
  bool quick = false;  // everything small: does it work at all?

  std::uint64_t elements(std::uint64_t full) const { return quick ? full / 16 : full; }
  int steps(int full) const { return quick ? 3 : full; }
};

// How long is a step of an 80 MB model, of raw TCP and of raw memory?
void measure_steps(const Size& size, Targets& targets);
// How long does it take to read 1 kB?
void measure_latency(const Size& size, Targets& targets);
// What does durability cost?
void measure_durability(const Size& size, Targets& targets);
// Are 64 workers of one server served alike?
void measure_many_workers(const Size& size, Targets& targets);
// How does a server's time for a push grow with its bytes, and with workers that do nothing?
void measure_growth(const Size& size, Targets& targets);

// Seconds a step, of all workers together, in sync mode with momentum; every worker checks every
// value after the last.
double step_seconds(const JobOptions& options, std::uint64_t elements, int steps);

}  // namespace cohort::bench

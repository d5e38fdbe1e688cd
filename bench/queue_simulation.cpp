// What the queue costs: 10,000 jobs on 1,000 nodes, from the first arrival to the last end.
#include "tests/platform/queue_simulation.h"

#include <chrono>
#include <cstdio>

int main() {
  using namespace cohort::service;
  const std::vector<cohort::jobspec::Size> nodes(
      1000, {.cores = 32, .memory_bytes = std::uint64_t{128} << 30, .gpus = 4});
  QueueSimulation simulation(nodes, random_jobs({.between = 10}, 1));
  const std::clock_t begin = std::clock();
  simulation.run();
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  for (const auto& job : simulation.jobs())
    if (job.ended < 0) {
      std::fprintf(stderr, "job %s never ended\n", job.job.id.c_str());
      return 1;
    }
  std::printf("{\"seconds\": %.4f, \"decisions\": %zu, \"used\": %.3f}\n", seconds,
              simulation.decisions(), simulation.used_part());
}

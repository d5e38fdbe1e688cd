// What a push costs the server in processor time, by its bytes and by how many idle workers are
// connected besides.
#include <fmt/core.h>

#include <cmath>
#include <map>
#include <vector>

#include "bench/ps/gate.h"
#include "bench/ps/limits.h"
#include "bench/ps/model.h"
#include "bench/ps/sections.h"

namespace cohort::bench {

namespace {

constexpr int kWarmup = 4;
constexpr int kIdleSteps = 200;
constexpr std::uint64_t kMega = 1'000'000;

// Processor seconds of the server for a step of worker 0; `idle` others of `workers` are connected
// and have the model. Asynchronous, SGD with momentum.
double server_seconds(std::uint64_t bytes, int steps, bool shared_memory, int workers, int idle) {
  Job job({.workers = workers, .shared_memory = shared_memory});
  const ps::ModelSpec spec = make_spec(bytes / sizeof(float), workers, ps::Policy::Mode::async,
                                       /*momentum=*/1);
  Shared<double> seconds(1);
  Gate gate(idle + 1);
  for (int w = 0; w <= idle; ++w)
    job.start_worker(w, [&, w](ps::Client& client) {
      WorkerModel model(spec, w);
      const auto runs = model.runs();
      const ps::InitialState initial = model.initial();
      client.begin(spec, w == 0 ? &initial : nullptr, soon());
      gate.meet(soon());
      if (w == 0) {
        std::uint64_t sequence = 1;
        for (; sequence <= kWarmup; ++sequence) make_step(client, model, runs, sequence, 1, soon());
        CacheSweep sweep;
        const double before = cpu_seconds(job.server(0));
        for (int i = 0; i < steps; ++i, ++sequence) {
          sweep();
          make_step(client, model, runs, sequence, 1, soon());
        }
        seconds[0] = (cpu_seconds(job.server(0)) - before) / steps;
        model.check_momentum(1, sequence - 1);
      }
      gate.meet(soon());
    });
  job.finish();
  return seconds[0];
}

// The slope of log(seconds) over log(bytes): 1 where time is proportional to bytes.
double fitted_exponent(const std::map<std::uint64_t, double>& seconds) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [bytes, time] : seconds) {
    const double u = std::log(static_cast<double>(bytes)), v = std::log(time);
    n += 1, x += u, y += v, xx += u * u, xy += u * v;
  }
  return (n * xy - x * y) / (n * xx - x * x);
}

using BySize = std::map<std::uint64_t, std::vector<double>>;

// Prints a row, records it, and returns its exponent.
double report(const std::string& name, const BySize& rounds, Targets& targets) {
  std::map<std::uint64_t, double> seconds;
  fmt::print("{:>12}:", name);
  for (const auto& [bytes, values] : rounds) {
    seconds[bytes] = median(values);
    fmt::print(" {:.3g} MB {:.0f} us,", static_cast<double>(bytes) / 1e6, 1e6 * seconds[bytes]);
    targets.record(fmt::format("{}_{}_bytes_s", name, bytes), Spread(values));
  }
  const double exponent = fitted_exponent(seconds);
  fmt::print(" exponent {:.2f}\n", exponent);
  std::fflush(stdout);
  targets.record(name + "_exponent", exponent);
  return exponent;
}

void measure_bytes(const Size& size, Targets& targets) {
  BySize memory, tcp, plain;
  for (int round = 0; round < size.rounds; ++round)
    for (const std::uint64_t mega : {1, 4, 16, 64}) {
      const std::uint64_t bytes = size.elements(mega * kMega);
      const int steps = size.steps(static_cast<int>(128 / mega));
      memory[bytes].push_back(server_seconds(bytes, steps, true, 1, 0));
      tcp[bytes].push_back(server_seconds(bytes, steps, false, 1, 0));
      plain[bytes].push_back(plain_update_seconds(bytes));
    }
  report("plain_update", plain, targets);
  targets.expect("ps_server_time_exponent_memory", report("server_memory", memory, targets),
                 "<=", 1.15);
  targets.expect("ps_server_time_exponent_tcp", report("server_tcp", tcp, targets), "<=", 1.15);
}

void measure_idle(const Size& size, Targets& targets) {
  constexpr int kWorkers = 64;
  std::vector<double> alone, crowded, ratio;
  for (int round = 0; round < size.rounds; ++round) {
    alone.push_back(server_seconds(kMega, kIdleSteps, true, kWorkers, 0));
    crowded.push_back(server_seconds(kMega, kIdleSteps, true, kWorkers, kWorkers - 1));
    ratio.push_back(crowded.back() / alone.back());
  }
  fmt::print(" 1 MB with no and with {} idle workers: {:.0f} us, {:.0f} us\n", kWorkers - 1,
             1e6 * median(alone), 1e6 * median(crowded));
  targets.record("server_no_idle_s", Spread(alone));
  targets.record("server_63_idle_s", Spread(crowded));
  targets.expect("ps_server_time_with_63_idle_workers", median(ratio), "<=", 1.1);
}

}  // namespace

void measure_growth(const Size& size, Targets& targets) {
  fmt::print("\nprocessor time of the server for a push of all of the model\n");
  measure_bytes(size, targets);
  measure_idle(size, targets);
}

}  // namespace cohort::bench

// Many workers of one server: is anyone served less than the others, and what do they cost it?
#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "bench/ps/gate.h"
#include "bench/ps/model.h"
#include "bench/ps/sections.h"

namespace cohort::bench {

namespace {

constexpr int kWorkers = 64;
constexpr std::uint64_t kElements = 262'144;  // 1 MiB

struct Service {
  double fairness = 0;  // steps of the slowest worker over those of the fastest
  double steps_per_second = 0;
  double server_mib = 0;  // a page that n processes share counts as 1/n
};

// Asynchronous steps for `seconds`; then the first worker checks that every step of every worker is
// in the values.
Service serve_many_workers(bool shared_memory, double seconds) {
  Job job({.workers = kWorkers, .shared_memory = shared_memory});
  const ps::ModelSpec spec =
      make_spec(kElements, kWorkers, ps::Policy::Mode::async, /*momentum=*/0);
  Shared<std::uint64_t> steps(kWorkers);
  Gate gate(kWorkers + 1);
  for (int w = 0; w < kWorkers; ++w)
    job.start_worker(w, [&, w](ps::Client& client) {
      WorkerModel model(spec, w);
      const auto runs = model.runs();
      const ps::InitialState initial = model.initial();
      client.begin(spec, w == 0 ? &initial : nullptr, soon());
      gate.meet(soon());
      const double end = now() + seconds;
      std::uint64_t made = 0;
      for (; now() < end; ++made) make_step(client, model, runs, made + 1, 1, soon());
      steps[static_cast<std::size_t>(w)] = made;
      gate.meet(soon());
      if (w != 0) return;
      client.read(runs, 0, soon());
      model.check_sum(steps.all());
    });
  gate.meet(soon());
  gate.meet(soon());
  Service service;
  service.server_mib =
      static_cast<double>(memory_kib(job.server(0), "smaps_rollup", "Pss:")) / 1024;
  job.finish();
  std::uint64_t all = 0;
  for (const std::uint64_t made : steps.all()) all += made;
  service.steps_per_second = static_cast<double>(all) / seconds;
  service.fairness = static_cast<double>(std::ranges::min(steps.all())) /
                     static_cast<double>(std::ranges::max(steps.all()));
  return service;
}

}  // namespace

void measure_many_workers(const Size& size, Targets& targets) {
  fmt::print("\n{} workers of one server, asynchronous steps of a model of 1 MiB\n", kWorkers);
  std::vector<Service> rounds[2];
  for (int round = 0; round < size.rounds; ++round)
    for (const bool shared_memory : {true, false})
      rounds[shared_memory].push_back(serve_many_workers(shared_memory, size.quick ? 1 : 5));
  for (const bool shared_memory : {true, false}) {
    std::vector<double> fairness, rate, memory;
    for (const Service& service : rounds[shared_memory]) {
      fairness.push_back(service.fairness);
      rate.push_back(service.steps_per_second);
      memory.push_back(service.server_mib);
    }
    const std::string name = shared_memory ? "memory" : "tcp";
    fmt::print("{:>7}: {:.0f} steps/s; slowest/fastest worker {:.2f}; the server has {:.0f} MiB\n",
               name, median(rate), median(fairness), median(memory));
    targets.record("many_workers_" + name + "_steps_per_second", Spread(rate));
    targets.record("many_workers_" + name + "_fairness", Spread(fairness));
    targets.record("many_workers_" + name + "_server_mib", Spread(memory));
    targets.expect("ps_64_workers_fairness_" + name, median(fairness), ">=", 0.5);
  }
  std::fflush(stdout);
}

}  // namespace cohort::bench

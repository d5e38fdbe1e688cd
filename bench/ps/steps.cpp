// Steps of a large model: against what the machine could do at best, and by durability.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "bench/ps/limits.h"
#include "bench/ps/model.h"
#include "bench/ps/sections.h"

namespace cohort::bench {

namespace {

constexpr int kStepWarmup = 2;

std::vector<double> ratios(const std::vector<double>& over, const std::vector<double>& under) {
  std::vector<double> result;
  for (std::size_t i = 0; i < over.size(); ++i) result.push_back(over[i] / under[i]);
  return result;
}

}  // namespace

double step_seconds(const JobOptions& options, std::uint64_t elements, int steps) {
  Job job(options);
  const ps::ModelSpec spec =
      make_spec(elements, options.workers, ps::Policy::Mode::sync, /*momentum=*/1);
  Shared<double> begins(static_cast<std::size_t>(options.workers));
  Shared<double> ends(static_cast<std::size_t>(options.workers));
  for (int w = 0; w < options.workers; ++w)
    job.start_worker(w, [&, w](ps::Client& client) {
      WorkerModel model(spec, w);
      const auto runs = model.runs();
      const ps::InitialState initial = model.initial();
      client.begin(spec, w == 0 ? &initial : nullptr, soon());
      client.read(runs, 0, soon());
      const auto all = static_cast<std::uint64_t>(kStepWarmup + steps);
      for (std::uint64_t sequence = 1; sequence <= all; ++sequence) {
        if (sequence == kStepWarmup + 1) begins[static_cast<std::size_t>(w)] = now();
        const auto outcome =
            make_step(client, model, runs, sequence, 1.0 / options.workers, soon());
        if (outcome.dropped > 0) throw Error("a push of a sync step was dropped");
      }
      ends[static_cast<std::size_t>(w)] = now();
      model.check_momentum(options.workers, all);
    });
  job.finish();
  return (std::ranges::max(ends.all()) - std::ranges::min(begins.all())) / steps;
}

void measure_steps(const Size& size, Targets& targets) {
  const std::uint64_t elements = size.elements(kModelElements);
  const std::uint64_t bytes = elements * sizeof(float);
  fmt::print(
      "\nsteps of a model of {:.0f} MB, synchronous, SGD with momentum; GB/s counts push and pull "
      "of "
      "all workers\n{:>7} {:>7} | {:>15} | {:>15} | {:>17} | {:>17} | {:>7} {:>7}\n",
      static_cast<double>(bytes) / 1e6, "workers", "servers", "memory ms  GB/s", "TCP ms  GB/s",
      "raw memory ms", "raw TCP ms  GB/s", "of mem.", "of TCP");
  for (const int workers : {1, 2})
    for (const int servers : {1, 2}) {
      std::vector<double> memory, tcp, raw_memory, raw_tcp;
      for (int round = 0; round < size.rounds; ++round) {
        JobOptions options{.workers = workers, .servers = servers};
        memory.push_back(step_seconds(options, elements, size.steps(10)));
        options.shared_memory = false;
        tcp.push_back(step_seconds(options, elements, size.steps(10)));
        raw_memory.push_back(raw_memory_seconds(bytes, workers, servers));
        raw_tcp.push_back(raw_tcp_seconds(bytes, workers, servers));
      }
      const auto rate = [&](double seconds) {
        return 2e-9 * static_cast<double>(bytes) * workers / seconds;
      };
      const double of_memory = median(ratios(raw_memory, memory));
      const double of_tcp = median(ratios(raw_tcp, tcp));
      fmt::print(
          "{:>7} {:>7} | {:>9.1f} {:>5.2f} | {:>9.1f} {:>5.2f} | {:>17.1f} | {:>11.1f} {:>5.2f} | "
          "{:>7.2f} {:>7.2f}\n",
          workers, servers, 1e3 * median(memory), rate(median(memory)), 1e3 * median(tcp),
          rate(median(tcp)), 1e3 * median(raw_memory), 1e3 * median(raw_tcp), rate(median(raw_tcp)),
          of_memory, of_tcp);
      std::fflush(stdout);
      const std::string name = fmt::format("{}_workers_{}_servers", workers, servers);
      targets.record(name + "_memory_step_s", Spread(memory));
      targets.record(name + "_tcp_step_s", Spread(tcp));
      targets.record(name + "_raw_memory_s", Spread(raw_memory));
      targets.record(name + "_raw_tcp_s", Spread(raw_tcp));
      targets.record(name + "_of_raw_memory", of_memory);
      targets.expect("ps_" + name + "_of_raw_tcp", of_tcp, ">=", 0.6);
    }
}

void measure_durability(const Size& size, Targets& targets) {
  using ps::Durability;
  struct Contestant {
    std::string name;
    Durability durability;
    int servers;
    std::string against;
  };
  const std::vector<Contestant> contestants{{"none", Durability::none, 1, ""},
                                            {"process", Durability::process, 1, "none"},
                                            {"disk", Durability::disk, 1, "none"},
                                            {"none_2_servers", Durability::none, 2, ""},
                                            {"replica", Durability::replica, 2, "none_2_servers"}};
  std::map<std::string, std::vector<double>> seconds;
  for (int round = 0; round < size.rounds; ++round)
    for (const Contestant& contestant : contestants)
      seconds[contestant.name].push_back(
          step_seconds({.servers = contestant.servers, .durability = contestant.durability},
                       size.elements(kModelElements), size.steps(10)));
  fmt::print("\ndurability: one worker on shared memory\n{:>16} {:>9} {:>22}\n", "", "step ms",
             "throughput, of none");
  for (const Contestant& contestant : contestants) {
    const auto& own = seconds.at(contestant.name);
    targets.record("durability_" + contestant.name + "_step_s", Spread(own));
    if (contestant.against.empty()) {
      fmt::print("{:>16} {:>9.1f}\n", contestant.name, 1e3 * median(own));
      continue;
    }
    const double share = median(ratios(seconds.at(contestant.against), own));
    fmt::print("{:>16} {:>9.1f} {:>22.2f}\n", contestant.name, 1e3 * median(own), share);
    targets.record("durability_" + contestant.name + "_of_none", share);
    if (contestant.name == "process") targets.expect("ps_process_of_none", share, ">=", 0.95);
  }
  std::fflush(stdout);
}

}  // namespace cohort::bench

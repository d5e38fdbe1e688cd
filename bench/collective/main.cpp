// How fast is all-reduce on this machine, beside OpenMPI, Gloo and what its memory and its loopback
// network can do? Every system is measured in turn, for several rounds; a figure is the median over
// the rounds of the slowest rank's median.
// usage: collective_bench [--rounds N] [--full] [--only-tcp] [--without openmpi] [--without gloo]
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "bench/collective/cases.h"
#include "bench/collective/limits.h"
#include "bench/collective/plot.h"
#include "bench/collective/systems.h"
#include "cohort/base/files/files.h"

namespace {

using namespace cohort;
using bench::Timing;
using bench::Timings;

// Several rounds of one system at one number of ranks.
class Rounds {
 public:
  void add(const Timings& timings) {
    for (const auto& [key, timing] : timings) rounds_[key].push_back(timing);
  }
  // Microseconds; 0 when it was not measured.
  double median(const std::string& type, std::size_t bytes, const std::string& memory) const {
    const auto it = rounds_.find({type, bytes, memory});
    if (it == rounds_.end()) return 0;
    std::vector<double> medians;
    for (const Timing& timing : it->second) medians.push_back(timing.median);
    return bench::Spread(std::move(medians)).median;
  }
  Timing spread(const std::string& type, std::size_t bytes, const std::string& memory) const {
    const auto it = rounds_.find({type, bytes, memory});
    if (it == rounds_.end()) return {};
    Timing all = it->second.front();
    for (const Timing& timing : it->second) {
      all.min = std::min(all.min, timing.min);
      all.p99 = std::max(all.p99, timing.p99);
    }
    all.median = median(type, bytes, memory);
    return all;
  }

 private:
  std::map<std::tuple<std::string, std::size_t, std::string>, std::vector<Timing>> rounds_;
};

struct Results {
  std::map<int, Rounds> cohort, tcp, mpi, gloo;  // by ranks
  std::map<std::size_t, std::vector<double>> shared_sum;
  std::vector<double> raw_tcp;
  std::vector<double> idle;
};

constexpr std::size_t kMB = 1 << 20;

struct Options {
  int rounds = 3;
  bool full = false;
  bool only_tcp = false;
  bool openmpi = bench::have_mpi();
  bool gloo = bench::have_gloo();
};

Results measure(const Options& options) {
  Results results;
  for (int round = 0; round < options.rounds; ++round) {
    for (const int ranks : {2, 4}) {
      if (options.only_tcp && ranks != 2) continue;
      std::fprintf(stderr, "round %d of %d, %d ranks\n", round + 1, options.rounds, ranks);
      if (!options.only_tcp) results.cohort[ranks].add(bench::run_cohort(ranks, options.full));
      results.tcp[ranks].add(bench::run_cohort_tcp(ranks));
      if (options.openmpi) results.mpi[ranks].add(bench::run_mpi(ranks, options.full));
      if (options.gloo) results.gloo[ranks].add(bench::run_gloo(ranks, options.full));
    }
    results.raw_tcp.push_back(bench::raw_tcp_micros(64 * kMB));
    if (options.only_tcp) continue;
    for (const std::size_t bytes : {kMB, 64 * kMB})
      results.shared_sum[bytes].push_back(bench::shared_sum_micros(bytes));
    results.idle.push_back(bench::run_cohort_idle(4));
  }
  return results;
}

double rate(std::size_t bytes, double micros) {
  return micros > 0 ? static_cast<double>(bytes) / micros / 1e3 : 0;  // GB/s, 10^9
}

std::string cell(std::size_t bytes, double micros) {
  return micros > 0 ? fmt::format("{:9.1f} {:7.2f}", micros, rate(bytes, micros))
                    : fmt::format("{:>9} {:>7}", "-", "-");
}

void print_tcp_table(const Results& results) {
  fmt::print("\nover TCP on loopback\n{:>5} {:>10} {:>5} | {:>17} | {:>17} | {:>7}\n", "type",
             "bytes", "ranks", "Cohort us   GB/s", "Gloo us   GB/s", "x Gloo");
  for (const auto& [ranks, rounds] : results.tcp)
    for (const bench::Case& what : bench::make_cases(false)) {
      if (what.memory != "group") continue;
      const double ours = rounds.median(what.type, what.bytes, what.memory);
      const auto it = results.gloo.find(ranks);
      const double gloo =
          it == results.gloo.end() ? 0 : it->second.median(what.type, what.bytes, "own");
      fmt::print("{:>5} {:>10} {:>5} | {} | {} | {}\n", what.type, what.bytes, ranks,
                 cell(what.bytes, ours), cell(what.bytes, gloo),
                 gloo > 0 ? fmt::format("{:7.2f}", gloo / ours) : fmt::format("{:>7}", "-"));
    }
}

void print_table(const Results& results, bool full) {
  fmt::print("\n{:>5} {:>10} {:>5} {:>6} | {:>17} | {:>17} | {:>17} | {:>7} {:>7}\n", "type",
             "bytes", "ranks", "memory", "Cohort us   GB/s", "OpenMPI us   GB/s", "Gloo us   GB/s",
             "x MPI", "x Gloo");
  for (const int ranks : {2, 4})
    for (const bench::Case& what : bench::make_cases(full)) {
      const double ours = results.cohort.at(ranks).median(what.type, what.bytes, what.memory);
      const auto other = [&](const std::map<int, Rounds>& system) {
        const auto it = system.find(ranks);
        const std::string memory = what.type == "f32" ? "own" : "group";
        return it == system.end() ? 0 : it->second.median(what.type, what.bytes, memory);
      };
      const double mpi = other(results.mpi), gloo = other(results.gloo);
      const auto ratio = [&](double theirs) {
        return theirs > 0 ? fmt::format("{:7.2f}", theirs / ours) : fmt::format("{:>7}", "-");
      };
      fmt::print("{:>5} {:>10} {:>5} {:>6} | {} | {} | {} | {} {}\n", what.type, what.bytes, ranks,
                 what.memory, cell(what.bytes, ours), cell(what.bytes, mpi), cell(what.bytes, gloo),
                 ratio(mpi), ratio(gloo));
    }
}

void write_plot(const Results& results, bool full) {
  const auto series = [&](const std::string& name, const std::string& color,
                          const std::map<int, Rounds>& system, const std::string& memory) {
    bench::Series line{name, color, {}};
    for (const bench::Case& what : bench::make_cases(full)) {
      if (what.type != "f32" || what.memory != memory || !system.contains(2)) continue;
      const double micros = system.at(2).median("f32", what.bytes, memory);
      if (micros > 0)
        line.points.emplace_back(static_cast<double>(what.bytes), rate(what.bytes, micros));
    }
    return line;
  };
  const std::string svg =
      bench::plot("all-reduce, f32, 2 ranks on one host",
                  {series("Cohort, group memory", "#c0392b", results.cohort, "group"),
                   series("Cohort, own memory", "#e67e22", results.cohort, "own"),
                   series("Cohort, TCP", "#8e44ad", results.tcp, "group"),
                   series("OpenMPI", "#2980b9", results.mpi, "own"),
                   series("Gloo", "#7f8c8d", results.gloo, "own")});
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
  std::filesystem::create_directories(folder / "bench");
  write_file_atomically(folder / "bench" / "collective.svg", svg);
}

void record(const Results& results, bool full, bench::Targets& targets) {
  const auto keep = [&](const std::string& system, const std::map<int, Rounds>& by_ranks) {
    for (const auto& [ranks, rounds] : by_ranks)
      for (const bench::Case& what : bench::make_cases(full)) {
        const Timing timing = rounds.spread(what.type, what.bytes, what.memory);
        if (timing.median > 0)
          targets.record(
              fmt::format("{}_{}_{}_{}_{}_us", system, ranks, what.type, what.bytes, what.memory),
              bench::Spread({timing.min, timing.median, timing.p99}));
      }
  };
  keep("cohort", results.cohort);
  keep("cohort_tcp", results.tcp);
  keep("openmpi", results.mpi);
  keep("gloo", results.gloo);
  for (const auto& [bytes, micros] : results.shared_sum)
    targets.record(fmt::format("limit_shared_sum_{}_us", bytes), bench::Spread(micros));
  targets.record("limit_raw_tcp_67108864_us", bench::Spread(results.raw_tcp));
}

void expect_tcp(const Results& results, bench::Targets& targets) {
  const double ours = results.tcp.at(2).median("f32", 64 * kMB, "group");
  targets.expect("tcp_2_ranks_64mb_of_raw_tcp", bench::Spread(results.raw_tcp).median / ours,
                 ">=", 0.6);
  if (!results.gloo.empty())
    targets.expect("tcp_2_ranks_64mb_vs_gloo",
                   results.gloo.at(2).median("f32", 64 * kMB, "own") / ours, ">=", 2.5);
}

void expect(const Results& results, bench::Targets& targets) {
  const auto& two = results.cohort.at(2);
  const auto& four = results.cohort.at(4);
  const auto limit = [&](std::size_t bytes) {
    return bench::Spread(results.shared_sum.at(bytes)).median;
  };
  for (const std::size_t bytes : {kMB, 64 * kMB}) {
    const double ours = two.median("f32", bytes, "group");
    targets.expect(fmt::format("shm_2_ranks_{}mb_of_shared_sum", bytes / kMB), limit(bytes) / ours,
                   ">=", 0.8);
  }
  const auto versus = [&](const std::map<int, Rounds>& system, const std::string& name, double big,
                          double own, double oversubscribed, double latency) {
    if (system.empty()) return;
    const auto& theirs = system.at(2);
    for (const std::size_t bytes : {kMB, 64 * kMB})
      targets.expect(fmt::format("shm_2_ranks_{}mb_vs_{}", bytes / kMB, name),
                     theirs.median("f32", bytes, "own") / two.median("f32", bytes, "group"),
                     ">=", big);
    targets.expect("shm_2_ranks_64mb_own_buffers_vs_" + name,
                   theirs.median("f32", 64 * kMB, "own") / two.median("f32", 64 * kMB, "own"),
                   ">=", own);
    targets.expect(
        "shm_4_ranks_on_2_cores_64mb_vs_" + name,
        system.at(4).median("f32", 64 * kMB, "own") / four.median("f32", 64 * kMB, "group"),
        ">=", oversubscribed);
    targets.expect("shm_2_ranks_1kb_time_vs_" + name,
                   two.median("f32", 1024, "own") / theirs.median("f32", 1024, "own"),
                   "<=", latency);
  };
  versus(results.mpi, "openmpi", 5, 2, 4, 1.5);
  versus(results.gloo, "gloo", 12, 5, 8, 0.05);
  if (!results.mpi.empty())
    targets.expect(
        "shm_2_ranks_bf16_64mb_vs_openmpi",
        results.mpi.at(2).median("bf16", 64 * kMB, "group") / two.median("bf16", 64 * kMB, "group"),
        ">=", 5);
  targets.expect("idle_4_ranks_cpu_percent", 100 * bench::Spread(results.idle).median, "<", 1);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--full")
      options.full = true;
    else if (word == "--only-tcp")
      options.only_tcp = true;
    else if (word == "--rounds" && i + 1 < argc)
      options.rounds = std::max(1, std::atoi(argv[++i]));
    else if (word == "--without" && i + 1 < argc)
      (std::string(argv[++i]) == "gloo" ? options.gloo : options.openmpi) = false;
    else {
      fmt::print(
          stderr,
          "usage: collective_bench [--rounds N] [--full] [--only-tcp] [--without openmpi|gloo]\n");
      return 2;
    }
  }
  try {
    const Results results = measure(options);
    if (!options.only_tcp) print_table(results, options.full);
    print_tcp_table(results);
    for (const auto& [bytes, micros] : results.shared_sum)
      fmt::print(
          "limit: two cores, a[i] = b[i] = a[i] + b[i] on shared pages, {} MB: {:.1f} us, "
          "{:.2f} GB/s\n",
          bytes / kMB, bench::Spread(micros).median, rate(bytes, bench::Spread(micros).median));
    fmt::print("limit: raw loopback TCP, 64 MB both ways: {:.2f} GB/s each way\n\n",
               rate(64 * kMB, bench::Spread(results.raw_tcp).median));
    if (!options.only_tcp) write_plot(results, options.full);
    bench::Targets targets("collective");
    record(results, options.full, targets);
    if (!options.only_tcp) expect(results, targets);
    expect_tcp(results, targets);
    targets.finish();
  } catch (const std::exception& error) {
    fmt::print(stderr, "collective_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}

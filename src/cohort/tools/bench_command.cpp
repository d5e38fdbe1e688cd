#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>

#include "cohort/base/error.h"
#include "cohort/cluster/environment.h"
#include "cohort/collective/world.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/own_ranks.h"

namespace cohort::tools {
namespace {

using collective::Buffer;
using collective::DataType;
using collective::Group;

constexpr const char* kBenchExamples = R"(
Examples:
  cohort bench collective
      two ranks, 64 B to 64 MB
  cohort bench collective -n 4 --max-bytes 1000000
      four ranks, up to 1 MB
)";

struct BenchArguments {
  std::string subject;
  int ranks = 2;
  std::size_t max_bytes = 64'000'000;
  bool as_rank = false;
};

struct Times {
  double fastest, median, slowest;  // seconds; of all ranks' medians the slowest
};

// How often to repeat: enough bytes for a steady figure, few enough to end soon.
int rounds_for(std::size_t bytes) {
  return static_cast<int>(std::clamp<std::size_t>(500'000'000 / bytes, 5, 2000));
}

// Fills, reduces and checks once, then measures on whatever the sums have become.
Times measure(Group& group, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 7) + static_cast<float>(group.rank());
  group.all_reduce(values);
  auto ranks = static_cast<float>(group.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    float expected = ranks * static_cast<float>(i % 7) + ranks * (ranks - 1) / 2;
    if (values[i] != expected)
      throw Error(fmt::format("element {} of {} is {} instead of {}", i, values.size(), values[i],
                              expected));
  }
  std::fill(values.begin(), values.end(), 0.0f);
  std::vector<double> times(static_cast<std::size_t>(rounds_for(values.size_bytes())));
  for (double& time : times) {
    group.barrier();
    auto begin = std::chrono::steady_clock::now();
    group.all_reduce(values);
    time = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  std::sort(times.begin(), times.end());
  double slowest_rank[] = {times.front(), times[times.size() / 2], times.back()};
  group.all_reduce(std::span<double>(slowest_rank), {.op = collective::ReduceOp::maximum});
  return {slowest_rank[0], slowest_rank[1], slowest_rank[2]};
}

// What one rank does.
int run_rank(const BenchArguments& arguments) {
  auto world = collective::join_world(cluster::Environment::of_this_process(), {});
  Group& group = *world.group;
  bool speaks = group.rank() == 0;
  if (speaks)
    fmt::print("all_reduce, f32, sum, {} ranks over {}\n{:>12} {:>12} {:>12} {:>12} {:>10}\n",
               group.size(), group.backend_name(), "bytes", "fastest us", "median us", "slowest us",
               "GB/s");
  for (std::size_t bytes = 64; bytes <= arguments.max_bytes; bytes *= 4) {
    Buffer buffer = group.allocate(bytes);
    Times times = measure(group, buffer.as<float>());
    if (speaks)
      fmt::print("{:>12} {:>12.1f} {:>12.1f} {:>12.1f} {:>10.3f}\n", bytes, times.fastest * 1e6,
                 times.median * 1e6, times.slowest * 1e6,
                 static_cast<double>(bytes) / times.median / 1e9);
    std::fflush(stdout);
  }
  if (speaks) fmt::print("every result was checked; times are those of the slowest rank\n");
  std::fflush(stdout);
  world.leave();
  return 0;
}

int bench(const BenchArguments& arguments) {
  if (arguments.subject != "collective")
    throw InvalidInput(fmt::format("cannot measure '{}'", arguments.subject),
                       {.advice = "Try: cohort bench collective"});
  if (arguments.as_rank) return run_rank(arguments);
  return run_own_ranks(arguments.ranks,
                       {"bench", "collective", "--max-bytes", std::to_string(arguments.max_bytes)});
}

}  // namespace

Command bench_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto arguments = std::make_shared<BenchArguments>();
    app.description("Measures this machine.");
    app.footer(kBenchExamples);
    app.add_option("SUBJECT", arguments->subject, "What to measure: collective")->type_name("");
    app.add_option("-n,--ranks", arguments->ranks, "Processes")->capture_default_str();
    app.add_option("--max-bytes", arguments->max_bytes, "The largest buffer")
        ->capture_default_str();
    app.add_flag("--as-rank", arguments->as_rank)->group("");  // how it starts itself
    return [arguments](const Words&, const Words&) { return bench(*arguments); };
  };
  return {"bench", "measure this machine: cohort bench collective", "collective [options]",
          declare};
}

}  // namespace cohort::tools

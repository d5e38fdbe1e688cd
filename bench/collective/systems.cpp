#include "bench/collective/systems.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/cluster/store/store_server.h"

namespace cohort::bench {

namespace {

std::filesystem::path program(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

// The output of processes that run side by side.
std::string run_all(const std::vector<std::vector<std::string>>& commands) {
  std::vector<FILE*> pipes;
  for (const auto& command : commands) {
    std::vector<std::string> words;
    for (const std::string& word : command) words.push_back(shell_quote(word));
    FILE* pipe = ::popen(("exec " + join(words, " ")).c_str(), "r");
    if (pipe == nullptr) throw SystemError("start " + command[0], errno);
    pipes.push_back(pipe);
  }
  std::string output;
  bool failed = false;
  for (FILE* pipe : pipes) {
    char buffer[4096];
    while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) output += buffer;
    failed = ::pclose(pipe) != 0 || failed;
  }
  if (failed) throw Error("a benchmark process failed", {.during = commands[0][0]});
  return output;
}

Timings parse(const std::string& output) {
  Timings result;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string tag, type, memory;
    std::size_t bytes = 0;
    int rank = 0;
    Timing timing;
    words >> tag >> type >> bytes >> memory >> rank >> timing.min >> timing.median >> timing.p99;
    if (tag != "case" || !words) continue;
    Timing& slowest = result[{type, bytes, memory}];
    slowest.min = std::max(slowest.min, timing.min);
    slowest.median = std::max(slowest.median, timing.median);
    slowest.p99 = std::max(slowest.p99, timing.p99);
  }
  return result;
}

std::string run_cohort_ranks(int ranks, const std::string& mode) {
  cluster::StoreServer store;
  std::vector<std::vector<std::string>> commands;
  for (int rank = 0; rank < ranks; ++rank)
    commands.push_back({program("collective_bench_cohort"), std::to_string(rank),
                        std::to_string(ranks), store.address().host,
                        std::to_string(store.address().port), "bench", mode});
  return run_all(commands);
}

}  // namespace

Timings run_cohort(int ranks, bool full) {
  return parse(run_cohort_ranks(ranks, full ? "full" : "short"));
}

Timings run_cohort_tcp(int ranks) { return parse(run_cohort_ranks(ranks, "tcp")); }

double run_cohort_idle(int ranks) {
  std::istringstream words(run_cohort_ranks(ranks, "idle"));
  double total = 0, share = 0;
  std::string tag;
  int rank = 0;
  while (words >> tag >> rank >> share) total += share;
  return total;
}

Timings run_mpi(int ranks, bool full) {
  return parse(
      run_all({{"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", std::to_string(ranks),
                program("collective_bench_mpi"), full ? "full" : "short"}}));
}

Timings run_gloo(int ranks, bool full) {
  std::string folder = std::filesystem::temp_directory_path() / "cohort-bench-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) throw SystemError("make a folder", errno);
  std::vector<std::vector<std::string>> commands;
  for (int rank = 0; rank < ranks; ++rank)
    commands.push_back({program("collective_bench_gloo"), std::to_string(rank),
                        std::to_string(ranks), folder, full ? "full" : "short"});
  const std::string output = run_all(commands);
  std::filesystem::remove_all(folder);
  return parse(output);
}

bool have_mpi() {
  return std::filesystem::exists(program("collective_bench_mpi")) &&
         std::filesystem::exists("/usr/bin/mpirun");
}

bool have_gloo() { return std::filesystem::exists(program("collective_bench_gloo")); }

}  // namespace cohort::bench

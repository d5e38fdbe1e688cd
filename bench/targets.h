#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cohort/base/files/files.h"

// What every benchmark does with its figures: keep them, hold them against what was promised, print
// the closing lines, write the same as JSON. Units are part of a name: "meet_64_processes_s".
namespace cohort::bench {

// Over several rounds. `values` must not be empty.
struct Spread {
  explicit Spread(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    min = values.front();
    median = values[values.size() / 2];
    p99 = values[(values.size() - 1) * 99 / 100];
    max = values.back();
  }
  double min, median, p99, max;
};

// Confined to one thread.
class Targets {
 public:
  // `benchmark`: the name of the JSON file, build/bench/NAME.json beside the program's build/bin/.
  explicit Targets(std::string benchmark) : benchmark_(std::move(benchmark)) {}

  void record(const std::string& name, double value) { figures_[name] = value; }
  void record(const std::string& name, const Spread& spread) {
    figures_[name] = {
        {"min", spread.min}, {"median", spread.median}, {"p99", spread.p99}, {"max", spread.max}};
  }

  // A promised figure. `op` is one of < <= > >=.
  void expect(const std::string& name, double measured, const std::string& op, double wanted) {
    bool met = op == "<"    ? measured < wanted
               : op == "<=" ? measured <= wanted
               : op == ">"  ? measured > wanted
                            : measured >= wanted;
    lines_.push_back(fmt::format("target {} measured {:.4g} wanted {} {:.4g} {}", name, measured,
                                 op, wanted, met ? "met" : "missed"));
    targets_.push_back({{"name", name},
                        {"measured", measured},
                        {"wanted", {{"op", op}, {"value", wanted}}},
                        {"met", met}});
  }

  // Prints the target lines and writes the file. Throws SystemError.
  void finish() const {
    auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
    folder /= "bench";
    std::filesystem::create_directories(folder);
    nlohmann::json report = {{"benchmark", benchmark_},
                             {"time", utc_timestamp()},
                             {"figures", figures_},
                             {"targets", targets_}};
    write_file_atomically(folder / (benchmark_ + ".json"), report.dump(2) + "\n");
    for (const auto& line : lines_) fmt::print("{}\n", line);
    std::fflush(stdout);
  }

 private:
  std::string benchmark_;
  nlohmann::json figures_ = nlohmann::json::object();
  nlohmann::json targets_ = nlohmann::json::array();
  std::vector<std::string> lines_;
};

}  // namespace cohort::bench

#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cohort::train {

// What parameter servers say of themselves (ps::Client::stats), added up for people. A value.
class ServerStatsLog {
 public:
  explicit ServerStatsLog(const std::vector<std::string>& texts);  // one a server

  // Updates that the values had behind them between a worker's reading them and its gradient's
  // update; of a bin of several, its lower end counts.
  double mean_staleness() const;
  std::uint64_t dropped() const;  // pushes that came too late or were not finite

  // All of it, and the histogram over all servers, as JSON. Throws SystemError.
  void write(const std::filesystem::path& file) const;

 private:
  std::vector<nlohmann::json> servers_;
};

}  // namespace cohort::train

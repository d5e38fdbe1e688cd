#include "cohort/train/sync/server_stats_log.h"

#include <map>

#include "cohort/base/files/files.h"

namespace cohort::train {

ServerStatsLog::ServerStatsLog(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) servers_.push_back(nlohmann::json::parse(text));
}

double ServerStatsLog::mean_staleness() const {
  double sum = 0;
  double pushes = 0;
  for (const auto& server : servers_)
    for (const auto& [bin, count] : server.at("staleness").items()) {
      sum += std::stod(bin) * count.get<double>();  // of "17-32" it reads the 17
      pushes += count.get<double>();
    }
  return pushes > 0 ? sum / pushes : 0;
}

std::uint64_t ServerStatsLog::dropped() const {
  std::uint64_t dropped = 0;
  for (const auto& server : servers_)
    dropped += server.at("dropped_late").get<std::uint64_t>() +
               server.at("not_finite").get<std::uint64_t>();
  return dropped;
}

void ServerStatsLog::write(const std::filesystem::path& file) const {
  std::map<std::string, std::uint64_t> histogram;
  for (const auto& server : servers_)
    for (const auto& [bin, count] : server.at("staleness").items())
      histogram[bin] += count.get<std::uint64_t>();
  const nlohmann::json all = {{"staleness", histogram},
                              {"staleness_mean", mean_staleness()},
                              {"dropped", dropped()},
                              {"servers", servers_}};
  write_file_atomically(file, all.dump(2) + "\n");
}

}  // namespace cohort::train

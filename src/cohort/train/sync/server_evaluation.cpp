#include "cohort/train/sync/server_evaluation.h"

#include "cohort/train/sync/server_stats_log.h"

namespace cohort::train {

Sums ServerEvaluation::add_up(std::span<const Sums> mine, std::int64_t, std::int64_t,
                              const Sums& none) {
  Sums total = none;
  for (const Sums& sums : mine) total.add(sums);
  return total;
}

torch::Tensor ServerEvaluation::gather_rows(const std::vector<torch::Tensor>& rows) {
  return rows.empty() ? torch::empty({0}) : torch::cat(rows);
}

void ServerEvaluation::add_logs(Logs& logs) {
  if (!steps_.replica().is_first()) return;
  const ServerStatsLog stats(steps_.client().stats(steps_.deadline()));
  logs["ps_staleness_mean"] = stats.mean_staleness();
  logs["ps_dropped"] = static_cast<double>(stats.dropped());
}

}  // namespace cohort::train

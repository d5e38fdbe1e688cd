#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/service/store/run_store.h"

namespace cohort::service {

// The values of one metric as a curve is drawn: in the order in which they came, grouped where there
// are more than a screen has points. The vectors are equally long.
struct MetricSeries {
  std::string name;
  std::int64_t count = 0;          // values, before they were grouped
  std::vector<std::int64_t> step;  // of a group: of its last value
  std::vector<Millis> time;
  std::vector<double> value;      // of a group: the mean; NaN: no value of it is finite
  std::vector<double> low, high;  // of a group: the extremes; empty: nothing was grouped
};

struct SeriesQuery {
  std::int64_t points = 1000;                  // at most
  std::optional<std::int64_t> from_step = {};  // both ends count
  std::optional<std::int64_t> to_step = {};
};

// Reads each value once, and holds `points` of them. Confined to the store's thread.
MetricSeries read_series(RunStore& store, std::string_view job, std::string_view name,
                         const SeriesQuery& query);

// The newest value of a metric, and how it came there: some values before it, evenly spread over the
// job's time, oldest first, itself last.
struct MetricTrend {
  std::string name;
  std::int64_t step = 0;
  double value = 0;
  std::vector<double> spark;
};

// Of the main metric; nothing where the job has none. Looks at `points` values, however many there
// are.
std::optional<MetricTrend> read_trend(RunStore& store, std::string_view job, int points);

// The id of the newest value of the job; 0: none.
std::int64_t last_metric(RunStore& store, std::string_view job);

// The metric that tells most about a job: train/loss (of the Trainer every few steps, where loss is
// that of an epoch), else loss, else the first name with "loss", else the first; "": none. Pure.
std::string main_metric(const std::vector<std::string>& names);

}  // namespace cohort::service

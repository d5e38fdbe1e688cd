#include "cohort/service/metrics/metric_series.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cohort/service/store/sqlite.h"

namespace cohort::service {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

// The values that become one point.
class PointGroup {
 public:
  void add(std::int64_t step, Millis time, double value) {
    step_ = step;
    time_ = time;
    ++count_;
    if (!std::isfinite(value)) return;
    low_ = finite_ == 0 ? value : std::min(low_, value);
    high_ = finite_ == 0 ? value : std::max(high_, value);
    // Of numbers near the largest there are, a sum would overflow.
    mean_ += (value - mean_) / static_cast<double>(++finite_);
  }

  void move_to(MetricSeries& series, bool is_grouped) {
    if (count_ == 0) return;
    series.step.push_back(step_);
    series.time.push_back(time_);
    series.value.push_back(finite_ == 0 ? kNothing : count_ == 1 ? low_ : mean_);
    if (is_grouped) {
      series.low.push_back(finite_ == 0 ? kNothing : low_);
      series.high.push_back(finite_ == 0 ? kNothing : high_);
    }
    *this = {};
  }

 private:
  std::int64_t step_ = 0;
  Millis time_ = 0;
  std::int64_t count_ = 0;
  std::int64_t finite_ = 0;
  double mean_ = 0, low_ = 0, high_ = 0;
};

std::int64_t count_values(RunStore& store, std::string_view job, std::string_view name,
                          std::int64_t from, std::int64_t to, bool is_bounded) {
  auto row = store.database().prepare(
      is_bounded ? "SELECT count(*) FROM metrics INDEXED BY metrics_job_name WHERE job = ?1 AND "
                   "name = ?2 AND step >= ?3 AND step <= ?4"
                 : "SELECT count(*) FROM metrics INDEXED BY metrics_job_name WHERE job = ?1 AND "
                   "name = ?2 AND ?3 <= ?4");
  row.bind(job, name, from, to);
  return row.step() ? row.integer(0) : 0;
}

}  // namespace

MetricSeries read_series(RunStore& store, std::string_view job, std::string_view name,
                         const SeriesQuery& query) {
  const std::int64_t from = query.from_step.value_or(std::numeric_limits<std::int64_t>::min());
  const std::int64_t to = query.to_step.value_or(std::numeric_limits<std::int64_t>::max());
  MetricSeries series{.name = std::string(name)};
  series.count =
      count_values(store, job, name, from, to, query.from_step.has_value() || query.to_step);
  const bool is_grouped = series.count > query.points;
  auto row = store.database().prepare(
      "SELECT step, time, value FROM metrics INDEXED BY metrics_job_name WHERE job = ?1 AND "
      "name = ?2 AND step >= ?3 AND step <= ?4 ORDER BY id");
  row.bind(job, name, from, to);
  PointGroup group;
  std::int64_t number = 0, point = 0;  // of the value, of its group
  while (row.step()) {
    const std::int64_t next = is_grouped ? number * query.points / series.count : number;
    if (next != point) group.move_to(series, is_grouped);
    point = next;
    ++number;
    group.add(row.integer(0), row.integer(1), row.is_null(2) ? kNothing : row.number(2));
  }
  group.move_to(series, is_grouped);
  return series;
}

std::optional<MetricTrend> read_trend(RunStore& store, std::string_view job, int points) {
  MetricTrend trend{.name = main_metric(store.metric_names(job))};
  if (trend.name.empty()) return std::nullopt;
  std::int64_t first = 0, last = 0;
  {
    auto row = store.database().prepare(
        "SELECT (SELECT min(id) FROM metrics WHERE job = ?1 AND name = ?2), "
        "(SELECT max(id) FROM metrics WHERE job = ?1 AND name = ?2)");
    row.bind(job, trend.name);
    if (!row.step() || row.is_null(0)) return std::nullopt;
    first = row.integer(0);
    last = row.integer(1);
  }
  std::int64_t taken = 0;  // ids grow with time
  for (int point = 0; point < points; ++point) {
    const std::int64_t until = points == 1
                                   ? last
                                   : first + (last - first) / (points - 1) * point +
                                         (last - first) % (points - 1) * point / (points - 1);
    auto row = store.database().prepare(
        "SELECT id, step, value FROM metrics INDEXED BY metrics_job_name WHERE job = ?1 AND "
        "name = ?2 AND id > ?3 AND id <= ?4 ORDER BY id DESC LIMIT 1");
    row.bind(job, trend.name, taken, until);
    if (!row.step()) continue;
    taken = row.integer(0);
    trend.step = row.integer(1);
    trend.value = row.is_null(2) ? kNothing : row.number(2);
    trend.spark.push_back(trend.value);
  }
  return trend;
}

std::int64_t last_metric(RunStore& store, std::string_view job) {
  auto row = store.database().prepare("SELECT max(id) FROM metrics WHERE job = ?1");
  row.bind(job);
  return row.step() && !row.is_null(0) ? row.integer(0) : 0;
}

std::string main_metric(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  for (const char* wanted : {"train/loss", "loss"})
    if (std::find(names.begin(), names.end(), wanted) != names.end()) return wanted;
  const auto found = std::find_if(names.begin(), names.end(), [](const std::string& name) {
    return name.find("loss") != std::string::npos;
  });
  return found == names.end() ? names.front() : *found;
}

}  // namespace cohort::service

#include <cmath>
#include <nlohmann/json.hpp>

#include "cohort/service/api/answer_later.h"
#include "cohort/service/api/handlers.h"
#include "cohort/service/api/json_rows.h"
#include "cohort/service/http/api_error.h"
#include "cohort/service/metrics/metric_series.h"

namespace cohort::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kPoints = 1000;
constexpr std::int64_t kMostPoints = 10'000;
constexpr std::size_t kMostSeries = 200;

Json numbers_json(const std::vector<double>& numbers) {
  Json json = Json::array();
  for (const double number : numbers)
    json.push_back(std::isfinite(number) ? Json(number) : Json(nullptr));
  return json;
}

Json series_json(const MetricSeries& series, std::int64_t last_id) {
  Json json = {{"name", series.name}, {"count", series.count},
               {"last_id", last_id},  {"step", series.step},
               {"time", series.time}, {"value", numbers_json(series.value)}};
  if (!series.low.empty()) {
    json["low"] = numbers_json(series.low);
    json["high"] = numbers_json(series.high);
  }
  return json;
}

std::optional<std::int64_t> asked_step(const Query& query, const char* name) {
  if (query.get(name).empty()) return std::nullopt;
  return query.number(name, 0, 0, INT64_MAX);
}

std::string read_all_series(RunStore& store, const std::string& job, std::vector<std::string> names,
                            const SeriesQuery& query) {
  if (names.empty()) names = store.metric_names(job);
  if (names.size() > kMostSeries) names.resize(kMostSeries);
  const std::int64_t last_id = last_metric(store, job);
  Json series = Json::array();
  for (const std::string& name : names)
    if (const auto found = read_series(store, job, name, query); found.count > 0)
      series.push_back(series_json(found, last_id));
  return dumped({{"series", std::move(series)}, {"last_id", last_id}});
}

}  // namespace

HttpResponse list_series(ApiRequest& request) {
  const Query& query = request.query;
  query.require_only({"name", "points", "from_step", "to_step"});
  const JobRow job = seen_job(request);
  const auto names = query.all("name");
  if (names.size() > kMostSeries)
    throw ApiError(
        400, fmt::format("{} names, and {} may be asked for at once", names.size(), kMostSeries));
  const SeriesQuery asked{.points = query.number("points", kPoints, 1, kMostPoints),
                          .from_step = asked_step(query, "from_step"),
                          .to_step = asked_step(query, "to_step")};
  return answer_later(
      request.context.background, request.http.wake,
      [readers = request.context.readers, id = job.id, names, asked] {
        return readers->read(
            [&](RunStore& store) { return read_all_series(store, id, names, asked); });
      },
      [](std::string json) { return json_response(200, std::move(json)); });
}

}  // namespace cohort::service

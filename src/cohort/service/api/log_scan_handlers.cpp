#include <nlohmann/json.hpp>

#include "cohort/base/text.h"
#include "cohort/service/api/answer_later.h"
#include "cohort/service/api/handlers.h"
#include "cohort/service/api/json_rows.h"
#include "cohort/service/http/api_error.h"
#include "cohort/service/logs/log_index.h"
#include "cohort/service/logs/log_search.h"

namespace cohort::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kIndexEvery = 1000;
constexpr std::int64_t kLeastEvery = 100;
constexpr std::int64_t kMostEvery = 1'000'000;
constexpr std::uint64_t kMostIndexBytes = std::uint64_t{64} << 20;  // of one call
constexpr std::int64_t kMostMatches = 1000;

// A task's log for a thread of the background.
struct ScannedLog {
  const engine::Engine* engine = nullptr;  // null: the attempt has none, or has not begun
  std::filesystem::path folder;
  std::string task;
  bool has_ended = false;  // the job
  std::uint64_t from = 0, line = 0;

  // Sets `ended` when nothing follows what it gave last.
  ReadLog reader(bool& ended) const {
    ended = has_ended && !engine;
    return [this, &ended](std::uint64_t offset, std::size_t most) {
      if (!engine) return std::string();
      engine::LogChunk chunk = engine->read_log(folder, task, offset, most);
      ended = chunk.end;
      return std::move(chunk.bytes);
    };
  }
};

ScannedLog asked_log(const ApiRequest& request) {
  const Query& query = request.query;
  const JobRow job = seen_job(request);
  ScannedLog log{.task = query.get("task"), .has_ended = has_ended(job.state)};
  if (log.task.empty()) throw ApiError(400, "task is missing", {.advice = "As in: ?task=worker:0"});
  const int attempt = asked_attempt(request, job);
  if (attempt > 0) {
    require_task(request, job, attempt, log.task);
    log.engine = request.context.engine(job.engine);
    log.folder = request.context.folders.attempt(job.id, attempt);
  }
  log.from = static_cast<std::uint64_t>(query.number("from", 0, 0, INT64_MAX));
  log.line = static_cast<std::uint64_t>(query.number("line", 0, 0, INT64_MAX));
  return log;
}

HttpResponse later_json(ApiRequest& request, std::function<Json()> work) {
  return answer_later(
      request.context.background, request.http.wake,
      [work = std::move(work)] { return dumped(work()); },
      [](std::string json) { return json_response(200, std::move(json)); });
}

}  // namespace

HttpResponse index_of_log(ApiRequest& request) {
  request.query.require_only({"task", "attempt", "every", "from", "line"});
  const ScannedLog log = asked_log(request);
  const auto every = static_cast<std::uint64_t>(
      request.query.number("every", kIndexEvery, kLeastEvery, kMostEvery));
  return later_json(request, [log, every] {
    bool ended = false;
    const LogIndex index = index_log(log.reader(ended), log.from, log.line, every, kMostIndexBytes);
    return Json{{"size", index.size}, {"line", index.line},           {"lines", index.lines},
                {"every", every},     {"first", index.first},         {"offsets", index.offsets},
                {"more", index.more}, {"ended", ended && !index.more}};
  });
}

HttpResponse search_log(ApiRequest& request) {
  const Query& query = request.query;
  query.require_only({"task", "attempt", "q", "regex", "case", "from", "line", "limit"});
  const ScannedLog log = asked_log(request);
  LogSearch::Bounds bounds;
  bounds.matches = static_cast<std::size_t>(
      query.number("limit", static_cast<std::int64_t>(bounds.matches), 1, kMostMatches));
  const auto search = std::make_shared<LogSearch>(
      query.get("q"),
      LogSearch::Options{.is_regex = query.flag("regex"), .matches_case = query.flag("case")});
  return later_json(request, [log, search, bounds] {
    bool ended = false;
    const LogMatches found = search->run(log.reader(ended), log.from, log.line, bounds);
    Json matches = Json::array();
    for (const LogMatch& match : found.matches)
      matches.push_back({{"offset", match.offset},
                         {"line", match.line},
                         {"text", match.text},
                         {"start", match.start},
                         {"length", match.length}});
    return Json{{"matches", std::move(matches)},
                {"next", found.next ? Json(*found.next) : Json(nullptr)},
                {"next_line", found.next_line},
                {"size", found.size}};
  });
}

}  // namespace cohort::service

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cohort/base/text.h"
#include "cohort/service/api/handlers.h"
#include "cohort/service/api/json_rows.h"
#include "cohort/service/api/log_stream.h"
#include "cohort/service/api/row_streams.h"
#include "cohort/service/http/api_error.h"
#include "cohort/service/http/time_text.h"

namespace cohort::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostTail = 100'000;
constexpr std::int64_t kMostReadBytes = std::int64_t{1} << 20;
constexpr int kMostEvents = 1000;
constexpr int kEvents = 100;
constexpr int kMostMetrics = 10'000;
constexpr int kMetrics = 1000;

bool accepts(const ApiRequest& request, std::string_view type) {
  const std::string* accept = find_header(request.http.headers, "accept");
  return accept && accept->find(type) != std::string::npos;
}

std::optional<Millis> asked_since(const Query& query) {
  const std::string text = query.get("since");
  if (text.empty()) return std::nullopt;
  const auto since = parse_since(text, utc_now());
  if (!since)
    throw ApiError(400, fmt::format("since is '{}'", escape_controls(text)),
                   {.advice = "Give a time as 2026-01-31T12:34:56Z, or seconds back: 600."});
  return since;
}

// Where a stream that is taken up again goes on: Last-Event-ID, which browsers send by themselves,
// wins over the address that they first asked.
std::string asked_after(const ApiRequest& request) {
  const std::string* last = find_header(request.http.headers, "last-event-id");
  return last && !last->empty() ? *last : request.query.get("after");
}

std::int64_t asked_row(const ApiRequest& request) {
  const std::string text = asked_after(request);
  if (text.empty()) return 0;
  const auto id = parse_unsigned(text);
  if (!id || *id > INT64_MAX)
    throw ApiError(400, fmt::format("after is '{}', and must be an id", escape_controls(text)));
  return static_cast<std::int64_t>(*id);
}

HttpResponse events_of(ApiRequest& request, const std::string& job) {
  const std::int64_t after = asked_row(request);
  const auto limit = request.query.number("limit", kEvents, 1, kMostEvents);
  const std::string user = request.caller.role == UserRole::user ? request.caller.user : "";
  if (!accepts(request, "application/json"))
    return sse_response(std::make_unique<EventStream>(request.context, job, user, after));
  Json events = Json::array();
  std::int64_t next = after;
  for (const EventRow& row :
       request.context.store.events_after(after, job, user, static_cast<int>(limit))) {
    events.push_back(event_json(row));
    next = row.id;
  }
  return json_response(200, dumped({{"events", std::move(events)}, {"next", next}}));
}

}  // namespace

void require_task(const ApiRequest& request, const JobRow& job, int attempt,
                  const std::string& task) {
  std::vector<std::string> names;
  for (const TaskRow& row : request.context.store.tasks(job.id, attempt)) names.push_back(row.name);
  if (names.empty() || std::find(names.begin(), names.end(), task) != names.end()) return;
  throw ApiError(404, fmt::format("job {} has no task '{}'", job.id, escape_controls(task)),
                 {.advice = fmt::format("There are: {}.", join(names, ", "))});
}

HttpResponse read_log(ApiRequest& request) {
  const Query& query = request.query;
  query.require_only({"task", "attempt", "offset", "limit", "since"});
  const JobRow job = seen_job(request);
  const std::string task = query.get("task");
  if (task.empty()) throw ApiError(400, "task is missing", {.advice = "As in: ?task=worker:0"});
  const int attempt = asked_attempt(request, job);
  const auto since = asked_since(query);
  const auto most = query.number("limit", BodyStream::kPiece, 1, kMostReadBytes);
  const engine::Engine* engine = request.context.engine(job.engine);

  engine::LogChunk chunk{.end = has_ended(job.state)};
  if (attempt > 0 && engine) {
    const std::uint64_t first =
        since ? request.context.store.log_offset_at(job.id, attempt, task, *since) : 0;
    const auto offset = query.number("offset", static_cast<std::int64_t>(first), 0, INT64_MAX);
    chunk = engine->read_log(request.context.folders.attempt(job.id, attempt), task,
                             static_cast<std::uint64_t>(offset), static_cast<std::size_t>(most));
    if (chunk.bytes.empty()) require_task(request, job, attempt, task);
  }
  HttpResponse response{.status = 200, .body = std::move(chunk.bytes), .type = "text/plain"};
  response.headers.emplace_back("Cohort-Next-Offset", std::to_string(chunk.next));
  response.headers.emplace_back("Cohort-Log-End", chunk.end ? "true" : "false");
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  return response;
}

HttpResponse follow_logs(ApiRequest& request) {
  const Query& query = request.query;
  query.require_only({"task", "since", "tail", "after"});
  const JobRow job = seen_job(request);
  LogQuery asked{.tasks = split(query.get("task"), ','), .since = asked_since(query)};
  if (!query.get("tail").empty())
    asked.tail = static_cast<std::uint64_t>(query.number("tail", 0, 0, kMostTail));
  if (const std::string after = asked_after(request); !after.empty()) {
    asked.after = log_cursor_of(after);
    if (!asked.after)
      throw ApiError(400, fmt::format("after is '{}'", escape_controls(after)),
                     {.advice = "Give the id of an event of this stream, as it was."});
  }
  for (const std::string& task : asked.tasks)
    if (job.attempt > 0) require_task(request, job, job.attempt, task);
  return sse_response(std::make_unique<LogStream>(request.context, job, std::move(asked)));
}

HttpResponse list_events(ApiRequest& request) {
  request.query.require_only({"job", "after", "limit"});
  std::string job = request.query.get("job");
  if (!job.empty()) {
    try {
      job = seen_job(request, job).id;
    } catch (const NoSuchJob&) {  // one that was deleted has events still, under its whole id
    }
  }
  return events_of(request, job);
}

HttpResponse list_job_events(ApiRequest& request) {
  request.query.require_only({"after", "limit"});
  return events_of(request, seen_job(request).id);
}

HttpResponse list_metrics(ApiRequest& request) {
  request.query.require_only({"name", "after", "limit"});
  const JobRow job = seen_job(request);
  const std::string name = request.query.get("name");
  const std::int64_t after = asked_row(request);
  const auto limit = request.query.number("limit", kMetrics, 1, kMostMetrics);
  if (accepts(request, "text/event-stream"))
    return sse_response(std::make_unique<MetricStream>(request.context, job.id, name, after));
  const RunStore& store = request.context.store;
  Json metrics = Json::array();
  std::int64_t next = after;
  for (const MetricRow& row : store.metrics(job.id, name, after, static_cast<int>(limit))) {
    metrics.push_back(metric_json(row));
    next = row.id;
  }
  return json_response(200, dumped({{"metrics", std::move(metrics)},
                                    {"names", store.metric_names(job.id)},
                                    {"next", next}}));
}

}  // namespace cohort::service

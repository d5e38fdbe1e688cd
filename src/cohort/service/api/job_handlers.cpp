#include <cmath>
#include <nlohmann/json.hpp>

#include "cohort/base/text.h"
#include "cohort/engine/attached_engine.h"
#include "cohort/engine/attempt_history.h"
#include "cohort/service/api/answer_later.h"
#include "cohort/service/api/handlers.h"
#include "cohort/service/api/json_rows.h"
#include "cohort/service/http/api_error.h"
#include "cohort/service/http/json_body.h"
#include "cohort/service/metrics/metric_series.h"
#include "cohort/service/store/remove_tree.h"

namespace cohort::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostJobs = 1000;
constexpr int kJobs = 100;
constexpr int kMostWorkers = 1'000'000;
constexpr std::size_t kMostRequestId = 200;
constexpr int kSparkPoints = 32;

HttpResponse job_response(int status, const JobRow& row) {
  return json_response(status, dumped(job_json(row)));
}

// Several with commas, and as often as they are there.
std::vector<JobState> asked_states(const Query& query) {
  std::vector<JobState> states;
  for (const std::string& name : split(join(query.all("state"), ","), ',')) {
    const auto state = job_state_of(name);
    if (!state)
      throw ApiError(400, fmt::format("'{}' is not a state", escape_controls(name)),
                     {.advice = "There are: queued, starting, running, stopping, succeeded, "
                                "failed, stopped."});
    states.push_back(*state);
  }
  return states;
}

jobspec::JobSpec asked_spec(const ApiRequest& request, const Json& body) {
  const auto spec = body.find("spec");
  if (spec == body.end() || !spec->is_object())
    throw ApiError(400, "spec is missing: the description of the job, an object");
  auto asked = jobspec::spec_from_json(dumped(*spec), request.context.options);
  // It shows what lies in any folder of the service's user.
  if (asked.engine == engine::AttachedEngine::kName && request.caller.role != UserRole::admin)
    throw ApiError(403, fmt::format("engine '{}' needs the role admin", asked.engine));
  return asked;
}

// What is kept as JSON of this version's own writing.
Json kept_json(const std::string& text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json::object();
}

template <typename ToJson>
std::string page_json(const std::vector<JobRow>& rows, const std::string& next,
                      const ToJson& to_json) {
  Json jobs = Json::array();
  for (const JobRow& row : rows) jobs.push_back(to_json(row));
  return dumped({{"jobs", std::move(jobs)}, {"next", next.empty() ? Json(nullptr) : Json(next)}});
}

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// With what a list shows of it while it runs.
Json latest_json(RunStore& store, const JobRow& row) {
  Json json = job_json(row);
  json["tasks"] = store.task_count(row.id, row.attempt);
  json["latest"] = nullptr;
  if (const auto trend = read_trend(store, row.id, kSparkPoints)) {
    Json spark = Json::array();
    for (const double value : trend->spark) spark.push_back(finite_or_null(value));
    json["latest"] = {{"name", trend->name},
                      {"step", trend->step},
                      {"value", finite_or_null(trend->value)},
                      {"spark", std::move(spark)}};
  }
  return json;
}

void add_usage(const engine::TaskUsage& usage, Json& task) {
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(); };
  const auto text = [](const std::string& value) { return value.empty() ? Json() : Json(value); };
  task["pid"] = usage.pid > 0 ? Json(usage.pid) : Json();
  task["started"] = text(usage.started);
  task["ended"] = text(usage.ended);
  task["cpu_seconds"] = or_null(usage.cpu_seconds);
  task["memory"] = or_null(usage.memory);
  task["gpu_memory"] = or_null(usage.gpu_memory);
  task["step"] = or_null(usage.step);
}

// A page of one job fewer than the filter's limit: the last one tells that more follow.
std::string listed_jobs(RunStore& store, const JobFilter& filter, bool with_latest) {
  auto rows = store.jobs(filter);
  std::string next;
  if (rows.size() == static_cast<std::size_t>(filter.limit)) {
    rows.pop_back();
    next = rows.back().id;
  }
  return page_json(rows, next, [&](const JobRow& row) {
    return with_latest ? latest_json(store, row) : job_json(row);
  });
}

// The caller's own job among several that fit.
JobRow one_of_own(const ApiRequest& request, const std::string& named, const AmbiguousJob& error) {
  std::vector<std::string> fitting;
  for (const JobRow& row : request.context.store.jobs({.user = request.caller.user, .limit = 0}))
    if (row.name == named || row.id.compare(0, named.size(), named) == 0) fitting.push_back(row.id);
  if (fitting.empty()) throw NoSuchJob(fmt::format("there is no job '{}'", escape_controls(named)));
  if (fitting.size() > 1)
    throw AmbiguousJob(fmt::format("'{}' is {} jobs", escape_controls(named), fitting.size()),
                       {.advice = error.context().advice});
  return *request.context.store.find_job(fitting.front());
}

}  // namespace

JobRow seen_job(const ApiRequest& request, const std::string& named) {
  try {
    JobRow row = request.context.store.job_named(named);
    if (may_see(request.caller, row.user)) return row;
  } catch (const AmbiguousJob& several) {
    if (request.caller.role != UserRole::user) throw;
    return one_of_own(request, named, several);
  }
  throw NoSuchJob(fmt::format("there is no job '{}'", escape_controls(named)),
                  {.advice = "List them: cohort jobs"});
}

JobRow seen_job(const ApiRequest& request) { return seen_job(request, request.part("job")); }

JobRow own_job(const ApiRequest& request) {
  JobRow row = seen_job(request);
  if (may_change(request.caller, row.user)) return row;
  throw ApiError(403, fmt::format("job {} is {}'s", row.id, row.user));
}

int asked_attempt(const ApiRequest& request, const JobRow& job) {
  const auto attempt = request.query.number("attempt", job.attempt, 1, INT32_MAX);
  if (attempt > job.attempt)
    throw ApiError(404, fmt::format("job {} has no attempt {}", job.id, attempt),
                   {.advice = fmt::format("It has {}.", job.attempt)});
  return static_cast<int>(attempt);
}

HttpResponse list_jobs(ApiRequest& request) {
  const Query& query = request.query;
  query.require_only({"state", "user", "queue", "name", "tag", "q", "before", "limit", "latest"});
  const int limit = static_cast<int>(query.number("limit", kJobs, 1, kMostJobs));
  JobFilter filter{.states = asked_states(query),
                   .user = query.get("user"),
                   .queue = query.get("queue"),
                   .name = query.get("name"),
                   .tag = query.get("tag"),
                   .text = query.get("q"),
                   .before = query.get("before"),
                   .limit = limit + 1};
  const Caller& caller = request.caller;
  const bool sees_none =
      caller.role == UserRole::user && !filter.user.empty() && filter.user != caller.user;
  if (caller.role == UserRole::user) filter.user = caller.user;
  const bool with_latest = query.flag("latest");
  if (sees_none) return json_response(200, page_json({}, "", job_json));
  if (!with_latest && filter.text.empty())
    return json_response(200, listed_jobs(request.context.store, filter, /*with_latest=*/false));
  // A text is looked for in every job that there is, and metrics are many.
  return answer_later(
      request.context.background, request.http.wake,
      [readers = request.context.readers, filter, with_latest] {
        return readers->read(
            [&](RunStore& store) { return listed_jobs(store, filter, with_latest); });
      },
      [](std::string json) { return json_response(200, std::move(json)); });
}

HttpResponse submit_job(ApiRequest& request) {
  const Json body = parse_body(request.http.body, {"spec", "request_id"});
  const std::string request_id = text_field(body, "request_id");
  if (request_id.size() > kMostRequestId)
    throw ApiError(400, fmt::format("request_id has more than {} characters", kMostRequestId));
  auto spec = asked_spec(request, body);
  JobOperations& operations = request.context.operations;
  if (const auto earlier = operations.submitted(request.caller.user, request_id))
    return job_response(201, *earlier);
  return answer_later(
      request.context.background, request.http.wake,
      [&operations, spec = std::move(spec)] { return operations.check(spec); },
      [&operations, user = request.caller.user, request_id](const jobspec::ResolvedJob& job) {
        return job_response(201, operations.submit(job, user, request_id));
      });
}

HttpResponse check_job(ApiRequest& request) {
  const Json body = parse_body(request.http.body, {"spec"});
  return answer_later(
      request.context.background, request.http.wake,
      [&operations = request.context.operations, spec = asked_spec(request, body)] {
        return operations.check(spec);
      },
      [](const jobspec::ResolvedJob& resolved) {
        return json_response(200, dumped({{"resolved", kept_json(jobspec::to_json(resolved))},
                                          {"notes", resolved.notes}}));
      });
}

HttpResponse list_tasks(ApiRequest& request) {
  request.query.require_only({"attempt", "usage"});
  const JobRow row = seen_job(request);
  const int attempt = asked_attempt(request, row);
  Json tasks = Json::array();
  for (const TaskRow& task : request.context.store.tasks(row.id, attempt))
    tasks.push_back(task_json(task));
  if (request.query.number("usage", 0, 0, 1) == 0)
    return json_response(200, dumped({{"attempt", attempt}, {"tasks", std::move(tasks)}}));
  return answer_later(
      request.context.background, request.http.wake,
      [folder = engine::AttemptFolder{request.context.folders.attempt(row.id, attempt)}] {
        return engine::read_usage(folder);
      },
      [attempt, tasks = std::move(tasks)](std::map<std::string, engine::TaskUsage> used) {
        Json list = tasks;
        for (Json& task : list) add_usage(used[task["name"].get<std::string>()], task);
        return json_response(200, dumped({{"attempt", attempt}, {"tasks", std::move(list)}}));
      });
}

HttpResponse delete_job(ApiRequest& request) {
  const JobRow row = own_job(request);
  return or_conflict([&] {
    return answer_later(
        request.context.background, request.http.wake,
        [folder = request.context.operations.remove(row.id)] {
          if (!folder.empty()) remove_tree(folder);
          return true;
        },
        [](bool) { return HttpResponse{.status = 204}; });
  });
}

HttpResponse stop_job(ApiRequest& request) {
  const JobRow row = own_job(request);
  return or_conflict([&] { return job_response(200, request.context.operations.stop(row.id)); });
}

HttpResponse resume_job(ApiRequest& request) {
  const JobRow row = own_job(request);
  return or_conflict([&] { return job_response(200, request.context.operations.resume(row.id)); });
}

HttpResponse scale_job(ApiRequest& request) {
  const JobRow row = own_job(request);
  const Json body = parse_body(request.http.body, {"workers"});
  const int workers = number_field(body, "workers", 1, kMostWorkers);
  return or_conflict(
      [&] { return job_response(200, request.context.operations.scale(row.id, workers)); });
}

HttpResponse pin_job(ApiRequest& request) {
  const JobRow row = own_job(request);
  const Json body = parse_body(request.http.body, {"pinned"});
  const auto pinned = body.find("pinned");
  if (pinned == body.end() || !pinned->is_boolean())
    throw ApiError(400, "pinned must be true or false");
  const bool wanted = pinned->get<bool>();
  return or_conflict(
      [&] { return job_response(200, request.context.operations.pin(row.id, wanted)); });
}

}  // namespace cohort::service

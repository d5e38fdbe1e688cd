#include "cohort/sdk/service_values_json.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"

namespace cohort::sdk {
namespace {

using nlohmann::ordered_json;

std::string text_of(const ordered_json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? "" : found->get<std::string>();
}

template <typename Number>
std::optional<Number> number_of(const ordered_json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return std::nullopt;
  return found->get<Number>();
}

// Calls `read` with the text as JSON; whatever it stumbles over is one error.
template <typename Read>
auto parse(std::string_view text, const char* what, const Read& read) {
  try {
    return read(ordered_json::parse(text));
  } catch (const ordered_json::exception& error) {
    throw ProtocolError(fmt::format("the service's answer is not {}: {}", what, error.what()),
                        {.advice = "Is it a service of another version? See: cohort --version"});
  }
}

JobAttempt read_attempt(const ordered_json& json) {
  return {.number = json.at("number"),
          .state = json.at("state"),
          .exit_code = number_of<int>(json, "exit_code"),
          .failure = text_of(json, "failure"),
          .instances = json.value("instances", 0),
          .created = text_of(json, "created"),
          .started = text_of(json, "started"),
          .ended = text_of(json, "ended")};
}

std::vector<JobTask> read_tasks(const ordered_json& json) {
  std::vector<JobTask> tasks;
  for (const auto& task : json)
    tasks.push_back({.name = task.at("name"),
                     .host = text_of(task, "host"),
                     .state = text_of(task, "state"),
                     .exit_code = number_of<int>(task, "exit_code"),
                     .restarts = task.value("restarts", 0)});
  return tasks;
}

Job read_job(const ordered_json& json) {
  Job job;
  job.id = json.at("id");
  job.name = json.at("name");
  job.user = text_of(json, "user");
  job.queue = text_of(json, "queue");
  job.engine = text_of(json, "engine");
  job.priority = json.value("priority", 0);
  job.state = json.at("state");
  job.reason = text_of(json, "reason");
  job.pinned = json.value("pinned", false);
  job.attempt = json.value("attempt", 0);
  job.instances = json.value("instances", 0);
  job.exit_code = number_of<int>(json, "exit_code");
  job.progress = number_of<double>(json, "progress");
  job.eta = text_of(json, "eta");
  job.submitted = text_of(json, "submitted");
  job.started = text_of(json, "started");
  job.ended = text_of(json, "ended");
  if (const auto tags = json.find("tags"); tags != json.end() && tags->is_object())
    for (const auto& [key, value] : tags->items())
      job.tags[key] = value.is_string() ? value.get<std::string>() : value.dump();
  if (const auto notes = json.find("notes"); notes != json.end())
    job.notes = notes->get<std::vector<std::string>>();
  if (const auto attempts = json.find("attempts"); attempts != json.end())
    for (const auto& attempt : *attempts) job.attempts.push_back(read_attempt(attempt));
  if (const auto tasks = json.find("tasks"); tasks != json.end()) job.tasks = read_tasks(*tasks);
  if (const auto spec = json.find("spec"); spec != json.end()) job.spec = spec->dump();
  job.json = json.dump();
  return job;
}

JobEvent read_event(const ordered_json& json) {
  return {.id = json.at("id"),
          .time = text_of(json, "time"),
          .job = text_of(json, "job"),
          .kind = json.at("kind"),
          .data = json.at("data").dump(),
          .json = json.dump()};
}

MachineSize read_size(const ordered_json& json) {
  return {
      .cores = json.at("cores"), .memory_bytes = json.at("memory_bytes"), .gpus = json.at("gpus")};
}

TokenInfo read_token(const ordered_json& json) {
  return {.id = json.at("id"),
          .user = json.at("user"),
          .role = json.at("role"),
          .created = text_of(json, "created"),
          .expires = text_of(json, "expires"),
          .token = text_of(json, "token")};
}

}  // namespace

bool Job::has_ended() const {
  return state == "succeeded" || state == "failed" || state == "stopped";
}

int Job::shell_exit_code() const {
  if (state == "succeeded") return 0;
  return exit_code.value_or(0) == 0 ? 1 : *exit_code;
}

Job job_from_json(std::string_view text) { return parse(text, "a job", read_job); }

JobPage job_page_from_json(std::string_view text) {
  return parse(text, "a list of jobs", [](const ordered_json& json) {
    JobPage page;
    for (const auto& job : json.at("jobs")) page.jobs.push_back(read_job(job));
    page.next = text_of(json, "next");
    return page;
  });
}

CheckedJob checked_from_json(std::string_view text) {
  return parse(text, "a checked job", [](const ordered_json& json) {
    return CheckedJob{.resolved = json.at("resolved").dump(), .notes = json.at("notes")};
  });
}

ServiceInfo service_from_json(std::string_view text) {
  return parse(text, "what a service tells of itself", [](const ordered_json& json) {
    return ServiceInfo{.version = json.at("version"),
                       .root = text_of(json, "root"),
                       .user = text_of(json, "user"),
                       .role = text_of(json, "role"),
                       .time = text_of(json, "time"),
                       .machine = read_size(json.at("machine")),
                       .free = read_size(json.at("free")),
                       .queued = json.at("jobs").at("queued"),
                       .running = json.at("jobs").at("running")};
  });
}

std::vector<JobTask> tasks_from_json(std::string_view text) {
  return parse(text, "a list of tasks",
               [](const ordered_json& json) { return read_tasks(json.at("tasks")); });
}

LogText log_text_from_json(std::string_view text) {
  return parse(text, "a piece of a log", [](const ordered_json& json) {
    return LogText{.task = json.at("task"),
                   .attempt = json.at("attempt"),
                   .offset = json.at("offset"),
                   .text = json.at("text")};
  });
}

JobEnd job_end_from_json(std::string_view text) {
  return parse(text, "the end of a job", [](const ordered_json& json) {
    return JobEnd{.state = json.at("state"),
                  .exit_code = number_of<int>(json, "exit_code"),
                  .reason = text_of(json, "reason")};
  });
}

JobEvent event_from_json(std::string_view text) { return parse(text, "an event", read_event); }

EventPage event_page_from_json(std::string_view text) {
  return parse(text, "a list of events", [](const ordered_json& json) {
    EventPage page;
    for (const auto& event : json.at("events")) page.events.push_back(read_event(event));
    page.next = number_of<std::int64_t>(json, "next").value_or(0);
    return page;
  });
}

MetricPage metric_page_from_json(std::string_view text) {
  return parse(text, "a list of metrics", [](const ordered_json& json) {
    MetricPage page;
    for (const auto& metric : json.at("metrics"))
      page.metrics.push_back({.id = metric.at("id"),
                              .name = metric.at("name"),
                              .step = metric.at("step"),
                              .value = number_of<double>(metric, "value")
                                           .value_or(std::numeric_limits<double>::quiet_NaN()),
                              .time = text_of(metric, "time")});
    page.next = number_of<std::int64_t>(json, "next").value_or(0);
    return page;
  });
}

std::vector<JobFile> files_from_json(std::string_view text) {
  return parse(text, "a list of files", [](const ordered_json& json) {
    std::vector<JobFile> files;
    for (const auto& file : json.at("files"))
      files.push_back({.path = file.at("path"),
                       .bytes = file.at("bytes"),
                       .modified = text_of(file, "modified")});
    return files;
  });
}

std::vector<TokenInfo> tokens_from_json(std::string_view text) {
  return parse(text, "a list of tokens", [](const ordered_json& json) {
    std::vector<TokenInfo> tokens;
    for (const auto& token : json.at("tokens")) tokens.push_back(read_token(token));
    return tokens;
  });
}

TokenInfo token_from_json(std::string_view text) { return parse(text, "a token", read_token); }

std::string text_from_json(std::string_view text, const char* field) {
  return parse(text, "an object with a text",
               [field](const ordered_json& json) { return json.at(field).get<std::string>(); });
}

std::optional<ServiceError> error_from_json(std::string_view text) {
  const auto json = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("error") || !json["error"].is_object())
    return std::nullopt;
  const auto& error = json["error"];
  if (!error.contains("message") || !error["message"].is_string()) return std::nullopt;
  ServiceError found{.message = error["message"], .advice = {}};
  if (error.contains("advice") && error["advice"].is_string()) found.advice = error["advice"];
  return found;
}

}  // namespace cohort::sdk

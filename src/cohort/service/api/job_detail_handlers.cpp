#include <algorithm>
#include <nlohmann/json.hpp>

#include "cohort/base/text.h"
#include "cohort/jobspec/spec_toml.h"
#include "cohort/service/api/answer_later.h"
#include "cohort/service/api/handlers.h"
#include "cohort/service/api/json_rows.h"
#include "cohort/service/http/api_error.h"
#include "cohort/service/logs/weights_line.h"

namespace cohort::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHidden = "(hidden)";

// What is kept as JSON of this version's own writing.
Json kept_object(const std::string& text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json::object();
}

void hide_values(Json& json) {
  if (const auto env = json.find("env"); env != json.end() && env->is_object())
    for (auto& [name, value] : env->items()) value = kHidden;
}

void hide_values(std::map<std::string, std::string>& variables) {
  for (auto& [name, value] : variables) value = kHidden;
}

// What a shell is told to run the job again; a job that needs more than a program of this machine is
// submitted again, from the file that `toml` is.
std::string rerun_command(const jobspec::ResolvedJob& job) {
  const jobspec::JobSpec& spec = job.spec;
  const bool is_plain = spec.engine == "local" && spec.source.empty() && spec.image.empty() &&
                        job.mpirun_words.empty() &&
                        job.runtime.kind == jobspec::RuntimeEnvironment::Kind::at_hand;
  if (!is_plain) return "cohort submit job.toml";
  std::string command = "cohort run";
  for (const std::string& word : job.run_words) command += " " + shell_quote(word);
  for (const auto& [name, value] : spec.env)
    command += " --env " + shell_quote(fmt::format("{}={}", name, value));
  command += " --";
  for (const std::string& word : job.program) command += " " + shell_quote(word);
  return command;
}

void add_configuration(const Caller& caller, const JobRow& row, Json& json) {
  const bool hides = caller.role == UserRole::viewer;
  Json spec = kept_object(row.spec), resolved = kept_object(row.resolved);
  json["notes"] = resolved.value("notes", Json::array());
  if (hides) {
    hide_values(spec);
    hide_values(resolved);
    if (resolved.contains("spec")) hide_values(resolved["spec"]);
  }
  json["spec"] = std::move(spec);
  json["resolved"] = resolved;
  json["toml"] = json["command"] = "";
  json["environment"] = Json::object();
  try {
    auto job = jobspec::resolved_from_json(dumped(resolved));
    json["toml"] = jobspec::to_toml(job.spec);
    json["command"] = rerun_command(job);
    auto variables = job.env;
    variables.insert(job.spec.env.begin(), job.spec.env.end());
    if (hides) hide_values(variables);
    json["environment"] = variables;
  } catch (const InvalidInput&) {  // of another version: what it kept is shown as it is
  }
}

// Where a program reports: its first task.
std::string first_task(const std::vector<TaskRow>& tasks) {
  for (const char* name : {"chief:0", "master:0", "worker:0", "rank:0"})
    for (const TaskRow& task : tasks)
      if (task.name == name) return name;
  return {};
}

HttpResponse with_weights(ApiRequest& request, const JobRow& row, Json json,
                          const std::string& task) {
  return answer_later(
      request.context.background, request.http.wake,
      [engine = request.context.engine(row.engine),
       folder = request.context.folders.attempt(row.id, row.attempt), task,
       json = std::move(json)]() mutable {
        const std::string weights = weights_in_log([&](std::uint64_t offset, std::size_t most) {
          return engine->read_log(folder, task, offset, most).bytes;
        });
        if (!weights.empty()) json["weights"] = weights;
        return dumped(json);
      },
      [](std::string text) { return json_response(200, std::move(text)); });
}

}  // namespace

HttpResponse get_job(ApiRequest& request) {
  request.query.require_only({});
  const JobRow row = seen_job(request);
  const RunStore& store = request.context.store;
  Json json = job_json(row);
  add_configuration(request.caller, row, json);
  json["weights"] = nullptr;
  json["attempts"] = Json::array();
  for (const AttemptRow& attempt : store.attempts(row.id))
    json["attempts"].push_back(attempt_json(attempt));
  const auto tasks = store.tasks(row.id, row.attempt);
  json["tasks"] = Json::array();
  for (const TaskRow& task : tasks) json["tasks"].push_back(task_json(task));
  const std::string first = first_task(tasks);
  if (row.state == JobState::succeeded && !first.empty() && request.context.engine(row.engine))
    return with_weights(request, row, std::move(json), first);
  return json_response(200, dumped(json));
}

}  // namespace cohort::service

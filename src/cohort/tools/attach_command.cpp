#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <thread>

#include "cohort/base/deadline.h"
#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/engine/attached_engine.h"
#include "cohort/engine/launcher_record.h"
#include "cohort/launch/record/job_record.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/find_job.h"
#include "cohort/tools/page_link.h"
#include "cohort/tools/platform_client.h"

namespace cohort::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAttachExamples = R"(
Examples:
  cohort attach latest
      the newest run under ./cohort-output
  cohort attach cohort-output/demo-20261115-144904
      the run of that output folder, also one that has ended
  cohort run -n 2 --dashboard -- ./train
      a new run that is shown from its beginning

The run does not depend on it: it goes on when the service ends, and its folder stays when the job
is deleted. `cohort open JOB` makes another link. The exit code is 0, or 2 when there is no such run.
)";
constexpr std::chrono::seconds kRecordTime{30};  // for a launcher that has just begun
constexpr std::chrono::milliseconds kRecordLook{20};
constexpr const char* kRunTag = "run";

// From `cohort run --dashboard`; empty: that run did not begin.
fs::path folder_from_input() {
  std::string line;
  std::getline(std::cin, line);
  return line;
}

// A launcher that has just begun writes its record without tasks first.
nlohmann::ordered_json wait_for_record(const fs::path& folder) {
  const fs::path path = folder / launch::OutputFolder::kRecord;
  const Deadline deadline = Deadline::after(kRecordTime);
  while (true) {
    const bool is_there = fs::exists(path);
    nlohmann::ordered_json record;
    if (is_there) record = engine::read_run_record(folder);
    if (is_there && record.is_null())
      throw InvalidInput(fmt::format("'{}' is not the record of a job", path.string()),
                         {.advice = "Name the output folder of a run."});
    if (!engine::record_list(record, "tasks").empty() || (is_there && deadline.expired()))
      return record;
    if (deadline.expired())
      throw InvalidInput(fmt::format("'{}' has no job.json", folder.string()),
                         {.advice = "Name the output folder of a run."});
    std::this_thread::sleep_for(kRecordLook);
  }
}

jobspec::JobSpec describe_run(const fs::path& folder, const nlohmann::ordered_json& record) {
  jobspec::JobSpec spec;
  spec.engine = engine::AttachedEngine::kName;
  spec.output = folder.string();
  for (const auto& word : engine::record_list(record, "command"))
    if (word.is_string()) spec.program.push_back(word.get<std::string>());
  spec.tags[kRunTag] = engine::record_text(record, "job");
  if (const auto elastic = record.find("elastic"); elastic != record.end() && elastic->is_object())
    spec.elastic = {.least = engine::record_number(*elastic, "least").value_or(1),
                    .most = engine::record_number(*elastic, "most").value_or(1)};
  else
    spec.instance_count = std::max<int>(
        1, static_cast<int>(std::ranges::count_if(
               engine::record_list(record, "tasks"),
               [](const auto& task) { return engine::record_text(task, "type") == "worker"; })));
  return spec;
}

// Of a run that was attached before, the same job.
sdk::Job attached_job(sdk::ServiceClient& client, const jobspec::JobSpec& spec) {
  const auto page = client.jobs({.tag = fmt::format("{}={}", kRunTag, spec.tags.at(kRunTag))});
  if (!page.jobs.empty()) return page.jobs.front();
  return client.submit(spec);
}

int attach(const std::string& named) {
  const bool is_told = named == "-";
  fs::path folder = is_told ? folder_from_input() : find_job(named);
  if (folder.empty()) return 0;
  folder = fs::absolute(folder).lexically_normal();
  const auto spec = describe_run(folder, wait_for_record(folder));
  sdk::ServiceClient client(sdk::find_or_start_service());
  const sdk::Job job = attached_job(client, spec);
  const std::string link = page_link(client, "/jobs/" + job.id);
  if (is_told)
    log::info("this run in a browser, by a link that works once: {}", link);
  else
    fmt::print("{}\n", link);
  return 0;
}

}  // namespace

Command attach_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto run = std::make_shared<std::string>();
    app.description(
        "Shows a run of `cohort run` in the page of this user's service, beside its jobs.");
    app.footer(kAttachExamples);
    app.add_option("RUN", *run, "An output folder, a job id under ./cohort-output, or latest")
        ->required();
    return [run](const Words&, const Words&) { return attach(*run); };
  };
  return {"attach", "show a run of `cohort run` in the page", "RUN", declare};
}

}  // namespace cohort::tools

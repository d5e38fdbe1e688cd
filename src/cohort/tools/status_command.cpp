#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/find_job.h"
#include "cohort/tools/job_connection.h"
#include "cohort/tools/job_table.h"
#include "cohort/tools/platform_client.h"
#include "cohort/tools/status_text.h"

namespace cohort::tools {
namespace {

constexpr std::chrono::seconds kStatusTime{10};
constexpr std::chrono::seconds kPeriod{1};

constexpr const char* kStatusExamples = R"(
Examples:
  cohort status latest
      the newest job under ./cohort-output
  cohort status runs/big --watch
      once a second, until the job has ended
  cohort status 20261115 --json
      the job whose id begins so, as job.json has it and with what its members tell
  cohort status mnist
      the submitted job of that name, where a service runs

Output folders and the jobs under ./cohort-output come first; what is none of them is asked for from
the service that runs. The exit code is 0 when the job is known, 2 when it is not.
)";

struct StatusArguments {
  std::string job;
  bool json = false;
  bool watch = false;
};

bool is_redrawn(const StatusArguments& arguments) {
  return arguments.watch && ::isatty(STDOUT_FILENO) == 1;
}

void show(const KnownJob& job, const StatusArguments& arguments) {
  if (arguments.json) {
    auto json = job.record;
    json["launcher_answers"] = job.launcher_answers;
    json["launcher_trouble"] = nullptr;
    if (!job.trouble.empty()) json["launcher_trouble"] = job.trouble;
    fmt::print("{}\n", json.dump(arguments.watch ? -1 : 2, ' ', /*ensure_ascii=*/true,
                                 nlohmann::ordered_json::error_handler_t::replace));
  } else {
    fmt::print("{}{}", is_redrawn(arguments) ? "\033[H\033[2J" : "", status_text(job));
  }
  std::fflush(stdout);
}

void show(const sdk::Job& job, const StatusArguments& arguments) {
  if (arguments.json)
    fmt::print("{}\n", job.json);
  else
    fmt::print("{}{}", is_redrawn(arguments) ? "\033[H\033[2J" : "",
               job_text(job, std::chrono::system_clock::now()));
  std::fflush(stdout);
}

int show_platform_status(sdk::ServiceClient& client, const StatusArguments& arguments) {
  const std::string name = job_name(client, arguments.job);
  while (true) {
    const sdk::Job job = client.job(name);
    show(job, arguments);
    if (!arguments.watch || job.has_ended()) return 0;
    std::this_thread::sleep_for(kPeriod);
  }
}

int show_status(const StatusArguments& arguments) {
  if (arguments.job.empty())
    throw InvalidInput("cohort status needs a job", {.advice = "As in: cohort status latest"});
  const auto folder = find_job_folder(arguments.job);
  if (!folder)
    if (auto client = running_service()) return show_platform_status(*client, arguments);
  const auto output = folder ? *folder : find_job(arguments.job);
  while (true) {
    const KnownJob job = look_at_job(output, Deadline::after(kStatusTime));
    show(job, arguments);
    if (!arguments.watch || !job.launcher_answers) return 0;
    std::this_thread::sleep_for(kPeriod);
  }
}

}  // namespace

Command status_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto arguments = std::make_shared<StatusArguments>();
    app.description("Shows what a job does now, or how it ended.");
    app.footer(kStatusExamples);
    app.add_option("JOB", arguments->job,
                   "Output folder, job id (or its beginning) under ./cohort-output, latest, or a "
                   "submitted job");
    app.add_flag("--json", arguments->json, "As JSON");
    app.add_flag("--watch", arguments->watch, "Again every second, until the job has ended");
    return [arguments](const Words&, const Words&) { return show_status(*arguments); };
  };
  return {"status", "show what a job does now, or how it ended", "JOB [options]", declare};
}

}  // namespace cohort::tools

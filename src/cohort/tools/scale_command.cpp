#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/find_job.h"
#include "cohort/tools/job_connection.h"
#include "cohort/tools/platform_client.h"

namespace cohort::tools {
namespace {

using nlohmann::ordered_json;

constexpr std::chrono::seconds kAnswerTime{10};
constexpr std::chrono::milliseconds kLookAgain{100};

constexpr const char* kScaleExamples = R"(
Examples:
  cohort scale latest 6
      six workers from now on, in the newest job under ./cohort-output
  cohort scale runs/big 2 --no-wait
      two workers in the job whose output folder is runs/big; returns at once
  cohort scale mnist 4
      the submitted job of that name

The exit code is 0 when the job has that many members (with --no-wait: when it was told), 1 when it
has not within the time, 2 when the job refuses.
)";

struct ScaleArguments {
  std::string job;
  std::optional<int> workers;
  bool no_wait = false;
  double timeout = 60;  // seconds
};

int members_in_view(const ordered_json& record) {
  int members = 0;
  for (const auto& member : record.at("elastic").at("members"))
    members += member.value("in_view", false) ? 1 : 0;
  return members;
}

int wait_until_scaled(const std::filesystem::path& output, int workers, Deadline deadline) {
  std::uint64_t told = 0;
  while (true) {
    const KnownJob job = look_at_job(output, Deadline::after(kAnswerTime));
    if (!job.launcher_answers)
      throw Error(fmt::format("job {} ended before it had {} workers ({})",
                              job.record.at("job").get<std::string>(), workers,
                              job.record.at("state").get<std::string>()));
    const ordered_json& elastic = job.record.at("elastic");
    const auto view = elastic.at("view").get<std::uint64_t>();
    const int members = members_in_view(job.record);
    if (view != std::exchange(told, view)) {
      fmt::print("view {}: {} of {} workers\n", view, members, workers);
      std::fflush(stdout);
    }
    if (members == workers && elastic.at("phase") == "training") return 0;
    if (deadline.expired()) {
      fmt::print("the job has {} of {} workers; it goes on trying (cohort status shows it)\n",
                 members, workers);
      return 1;
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

int scale_submitted(sdk::ServiceClient& client, const ScaleArguments& arguments,
                    Deadline deadline) {
  sdk::Job job = client.scale(job_name(client, arguments.job), *arguments.workers);
  fmt::print("job {} is to have {} worker{}\n", escape_controls(job.id), *arguments.workers,
             *arguments.workers == 1 ? "" : "s");
  std::fflush(stdout);
  int told = -1;
  while (!arguments.no_wait && job.instances != *arguments.workers) {
    if (job.has_ended())
      throw Error(fmt::format("job {} ended before it had {} workers ({})", job.id,
                              *arguments.workers, job.state));
    if (job.instances != std::exchange(told, job.instances)) {
      fmt::print("it has {}\n", job.instances);
      std::fflush(stdout);
    }
    if (deadline.expired()) {
      fmt::print("the job has {} of {} workers; it goes on trying (cohort status shows it)\n",
                 job.instances, *arguments.workers);
      return 1;
    }
    std::this_thread::sleep_for(kLookAgain);
    job = client.job(job.id);
  }
  return 0;
}

int scale_job(const ScaleArguments& arguments) {
  if (arguments.job.empty() || !arguments.workers)
    throw InvalidInput("cohort scale needs a job and a number of workers",
                       {.advice = "As in: cohort scale latest 4"});
  if (!(arguments.timeout >= 0 && arguments.timeout <= 1e6))
    throw InvalidInput(
        fmt::format("--timeout must be from 0 to 1000000 seconds, got {}", arguments.timeout));
  if (*arguments.workers < 1)
    throw InvalidInput(
        fmt::format("the number of workers must be at least 1, got {}", *arguments.workers));
  const auto deadline = Deadline::after(
      std::chrono::milliseconds(static_cast<std::int64_t>(arguments.timeout * 1000)));
  const auto folder = find_job_folder(arguments.job);
  if (!folder)
    if (auto client = service_with_jobs()) return scale_submitted(*client, arguments, deadline);
  const auto output = folder ? *folder : find_job(arguments.job);
  const ordered_json answer =
      request(output, {{"command", "scale"}, {"workers", *arguments.workers}},
              Deadline::after(kAnswerTime));
  fmt::print("{}\n", escape_controls(answer.value("message", "")));
  std::fflush(stdout);
  return arguments.no_wait ? 0 : wait_until_scaled(output, *arguments.workers, deadline);
}

}  // namespace

Command scale_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto arguments = std::make_shared<ScaleArguments>();
    app.description("Gives a running elastic job another number of workers.");
    app.footer(kScaleExamples);
    app.add_option("JOB", arguments->job,
                   "Output folder, job id (or its beginning) under ./cohort-output, latest, or a "
                   "submitted job");
    app.add_option("N", arguments->workers, "Workers from now on");
    app.add_flag("--no-wait", arguments->no_wait, "Do not wait until the job has so many");
    app.add_option("--timeout", arguments->timeout, "Seconds to wait [60]")->type_name("S");
    return [arguments](const Words&, const Words&) { return scale_job(*arguments); };
  };
  return {"scale", "give a running elastic job another number of workers", "JOB N [options]",
          declare};
}

}  // namespace cohort::tools

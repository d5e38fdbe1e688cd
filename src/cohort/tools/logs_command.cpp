#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/job_log_screen.h"
#include "cohort/tools/job_wait.h"
#include "cohort/tools/platform_client.h"

namespace cohort::tools {
namespace {

constexpr int kMostTail = 100000;
constexpr int kInterrupted = 130;

constexpr const char* kLogsExamples = R"(
Examples:
  cohort logs latest
      what all tasks of the newest submitted job have written
  cohort logs -f mnist --task worker:1 --tail 20
      the last 20 lines of one task, and what it writes until the job ends
  cohort logs 20261116-190102 --since 10m
      the last ten minutes
  cohort logs mnist --attempt 1
      before it was tried again

-f goes on where it was when the service is started again. The exit code is 0; with -f that of the
job once it has ended, and 130 after Ctrl-C, which leaves the job alone.
)";

struct LogsArguments {
  std::string job;
  sdk::LogQuery query;
  bool follow = false;
  int attempt = 0;
};

// "10m", "90s", "2h", "1d": seconds. A time (with a T in it) goes to the service as it is.
std::string since_text(const std::string& text) {
  if (text.empty() || text.find('T') != text.npos) return text;
  constexpr std::pair<char, std::uint64_t> kUnits[] = {
      {'s', 1}, {'m', 60}, {'h', 3600}, {'d', 24 * 3600}};
  std::string_view number = text;
  std::uint64_t factor = 1;
  for (const auto& [letter, seconds] : kUnits)
    if (text.back() == letter) {
      factor = seconds;
      number.remove_suffix(1);
    }
  const auto count = parse_unsigned(number);
  if (!count || *count > 1'000'000'000)
    throw InvalidInput(
        fmt::format("--since '{}' is neither a time nor a number with s, m, h or d", text),
        {.advice = "As in --since 10m, or --since 2026-11-16T19:00:00Z."});
  return std::to_string(*count * factor);
}

int print_logs(const LogsArguments& arguments) {
  if (arguments.job.empty())
    throw InvalidInput("cohort logs needs a job", {.advice = "As in: cohort logs latest"});
  if (arguments.follow && arguments.attempt != 0)
    throw InvalidInput("--attempt and -f exclude each other: -f shows every attempt");
  if (arguments.attempt < 0)
    throw InvalidInput(fmt::format("--attempt must be at least 1, got {}", arguments.attempt));
  if (arguments.query.tail && (*arguments.query.tail < 0 || *arguments.query.tail > kMostTail))
    throw InvalidInput(
        fmt::format("--tail must be from 0 to {} lines, got {}", kMostTail, *arguments.query.tail));
  sdk::LogQuery query = arguments.query;
  query.since = since_text(query.since);
  for (auto& task : query.tasks)
    std::replace(task.begin(), task.end(), '/', ':');  // as in messages
  Interruption interruption;
  auto client = service_with_jobs(interruption.cancel());
  if (!client) {
    fmt::print("no jobs\n");
    return 0;
  }
  const std::string job = job_name(*client, arguments.job);
  JobLogScreen screen(query.tasks.size() != 1);
  try {
    if (arguments.follow) {
      tell_waiting(*client, job);
      const sdk::JobEnd end = screen.follow(*client, job, query);
      return end.state == "succeeded" ? 0 : end.exit_code.value_or(0) == 0 ? 1 : *end.exit_code;
    }
    screen.read(*client, job, query, arguments.attempt);
    return 0;
  } catch (const HttpCancelled&) {
    return kInterrupted;
  }
}

}  // namespace

Command logs_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto arguments = std::make_shared<LogsArguments>();
    app.description("Prints what the tasks of a submitted job wrote.");
    app.footer(kLogsExamples);
    app.add_option("JOB", arguments->job, "Job id (or its beginning), name, or latest");
    app.add_flag("-f,--follow", arguments->follow, "Go on until the job has ended");
    app.add_option("--task", arguments->query.tasks, "Only these tasks, as in worker:0,ps:0")
        ->delimiter(',')
        ->take_all()
        ->allow_extra_args(false)
        ->type_name("TASK");
    app.add_option("--since", arguments->query.since,
                   "Only what was written since: 90s, 10m, 2h, 1d ago, or a time in UTC")
        ->type_name("TIME");
    app.add_option("--tail", arguments->query.tail, "Only the last N lines of each task")
        ->type_name("N");
    app.add_option("--attempt", arguments->attempt, "Of this attempt [the newest]")->type_name("N");
    return [arguments](const Words&, const Words&) { return print_logs(*arguments); };
  };
  return {"logs", "print or follow what a submitted job writes", "[-f] JOB [options]", declare};
}

}  // namespace cohort::tools

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <thread>

#include "cohort/base/deadline.h"
#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/job_table.h"
#include "cohort/tools/platform_client.h"

namespace cohort::tools {
namespace {

constexpr std::chrono::milliseconds kStopLook{200};

constexpr const char* kStopExamples = R"(
Examples:
  cohort stop mnist
      asks the tasks to end (TERM, and KILL when their time is up) and waits until they have
  cohort stop 20261116-190102 20261116-190107 --no-wait
      two jobs; returns at once

A job that waits in the queue ends at once. cohort resume goes on with a stopped job. The exit code
is 0 when every job has ended (with --no-wait: was told), 1 when one has not within the time, 2 when
a job is not known.
)";

struct StopArguments {
  std::vector<std::string> jobs;
  bool no_wait = false;
  double timeout = 60;  // seconds
};

int stop_jobs(const StopArguments& arguments) {
  if (arguments.jobs.empty())
    throw InvalidInput("cohort stop needs a job", {.advice = "As in: cohort stop latest"});
  if (!(arguments.timeout >= 0 && arguments.timeout <= 1e6))
    throw InvalidInput(
        fmt::format("--timeout must be from 0 to 1000000 seconds, got {}", arguments.timeout));
  sdk::ServiceClient client = service_with_job(arguments.jobs.front());
  std::vector<sdk::Job> jobs;
  for (const auto& name : arguments.jobs) jobs.push_back(client.stop(job_name(client, name)));
  const auto deadline = Deadline::after(
      std::chrono::milliseconds(static_cast<std::int64_t>(arguments.timeout * 1000)));
  int code = 0;
  for (auto& job : jobs) {
    while (!arguments.no_wait && !job.has_ended() && !deadline.expired()) {
      std::this_thread::sleep_for(kStopLook);
      job = client.job(job.id);
    }
    fmt::print("{}\n", ending_text(job));
    if (!arguments.no_wait && !job.has_ended()) code = 1;
  }
  return code;
}

}  // namespace

Command stop_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto arguments = std::make_shared<StopArguments>();
    app.description("Ends submitted jobs.");
    app.footer(kStopExamples);
    app.add_option("JOB", arguments->jobs, "Job ids (or their beginnings), names, or latest");
    app.add_flag("--no-wait", arguments->no_wait, "Do not wait until they have ended");
    app.add_option("--timeout", arguments->timeout, "Seconds to wait [60]")->type_name("S");
    return [arguments](const Words&, const Words&) { return stop_jobs(*arguments); };
  };
  return {"stop", "end submitted jobs", "JOB... [options]", declare};
}

}  // namespace cohort::tools

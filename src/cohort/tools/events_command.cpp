#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/platform_client.h"

namespace cohort::tools {
namespace {

constexpr int kInterruptedEvents = 130;

constexpr const char* kEventsExamples = R"(
Examples:
  cohort events
      what happened to submitted jobs: submitted, started, scaled, ended ...
  cohort events -f mnist
      of one job, and what happens from now on
  cohort events --after 1203 --json
      those behind an event that a script has seen, one JSON object a line

-f goes on where it was when the service is started again. The exit code is 0, and 130 after Ctrl-C.
)";

struct EventsArguments {
  std::string job;
  std::int64_t after = 0;
  bool follow = false;
  bool json = false;
};

void print_event(const sdk::JobEvent& event, bool json) {
  if (json)
    fmt::print("{}\n", event.json);
  else
    fmt::print("{}  {}  {}  {:<10}  {}\n", event.id, event.time, escape_controls(event.job),
               escape_controls(event.kind), event.data == "{}" ? "" : escape_controls(event.data));
  std::fflush(stdout);
}

int print_events(const EventsArguments& arguments) {
  if (arguments.after < 0)
    throw InvalidInput(fmt::format("--after must be at least 0, got {}", arguments.after));
  Interruption interruption;
  auto client = service_with_jobs(interruption.cancel());
  if (!client) {
    fmt::print("no jobs\n");
    return 0;
  }
  const std::string job = arguments.job.empty() ? "" : job_name(*client, arguments.job);
  try {
    if (arguments.follow)
      client->follow_events(job, arguments.after, [&](const sdk::JobEvent& event) {
        print_event(event, arguments.json);
        return true;
      });
    else {
      const auto events = client->events(job, arguments.after);
      if (events.empty() && !job.empty()) client->job(job);  // throws where there is none
      for (const auto& event : events) print_event(event, arguments.json);
    }
  } catch (const HttpCancelled&) {
    return kInterruptedEvents;
  }
  return 0;
}

}  // namespace

Command events_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto arguments = std::make_shared<EventsArguments>();
    app.description("Prints what happened to submitted jobs.");
    app.footer(kEventsExamples);
    app.add_option("JOB", arguments->job,
                   "Of this job only: id (or its beginning), name, or latest");
    app.add_flag("-f,--follow", arguments->follow, "Go on until Ctrl-C");
    app.add_option("--after", arguments->after, "Only events behind the one of this number [0]")
        ->type_name("ID");
    app.add_flag("--json", arguments->json, "One JSON object a line");
    return [arguments](const Words&, const Words&) { return print_events(*arguments); };
  };
  return {"events", "print or follow what happens to submitted jobs", "[-f] [JOB] [options]",
          declare};
}

}  // namespace cohort::tools

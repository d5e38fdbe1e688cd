#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/report/live_line.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/job_table.h"
#include "cohort/tools/platform_client.h"

namespace cohort::tools {
namespace {

constexpr int kMostListed = 100000;
constexpr int kPage = 1000;

constexpr const char* kJobsExamples = R"(
Examples:
  cohort jobs
      the newest 50 submitted jobs
  cohort jobs --state running,queued
      those that have not ended
  cohort jobs --tag team=vision --json
      as JSON, with every field that docs/api.md names

The exit code is 0, also when there are no jobs.
)";

struct JobsArguments {
  sdk::JobQuery query{.limit = 50};
  bool json = false;
};

void require_states(const std::vector<std::string>& states) {
  const std::vector<std::string> known = {"queued",    "starting", "running", "stopping",
                                          "succeeded", "failed",   "stopped"};
  for (const auto& state : states) {
    if (std::find(known.begin(), known.end(), state) != known.end()) continue;
    const std::string meant = nearest(state, known);
    throw InvalidInput(fmt::format("--state '{}' is not one of {}", state, join(known, ", ")),
                       {.advice = meant.empty() ? "Choose some of them."
                                                : fmt::format("Did you mean {}?", meant)});
  }
}

std::vector<sdk::Job> listed_jobs(sdk::ServiceClient& client, sdk::JobQuery query) {
  std::vector<sdk::Job> jobs;
  for (int left = query.limit; left > 0;) {
    query.limit = std::min(left, kPage);
    sdk::JobPage page = client.jobs(query);
    left -= static_cast<int>(page.jobs.size());
    std::move(page.jobs.begin(), page.jobs.end(), std::back_inserter(jobs));
    if (page.next.empty()) break;
    query.before = page.next;
  }
  return jobs;
}

void print_as_json(const std::vector<sdk::Job>& jobs) {
  std::vector<std::string> texts;
  for (const auto& job : jobs) texts.push_back("  " + job.json);
  fmt::print("{}\n", texts.empty() ? "[]" : fmt::format("[\n{}\n]", join(texts, ",\n")));
}

int list_jobs(const JobsArguments& arguments) {
  require_states(arguments.query.states);
  if (arguments.query.limit < 1 || arguments.query.limit > kMostListed)
    throw InvalidInput(
        fmt::format("--limit must be from 1 to {}, got {}", kMostListed, arguments.query.limit));
  auto client = service_with_jobs();
  const auto jobs = client ? listed_jobs(*client, arguments.query) : std::vector<sdk::Job>();
  if (arguments.json) {
    print_as_json(jobs);
  } else if (jobs.empty()) {
    fmt::print("no jobs\n");
  } else {
    const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
    fmt::print("{}", job_table(jobs, std::chrono::system_clock::now(),
                               is_terminal ? report::terminal_columns(STDOUT_FILENO) : 0));
  }
  return 0;
}

}  // namespace

Command jobs_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto arguments = std::make_shared<JobsArguments>();
    sdk::JobQuery& query = arguments->query;
    app.description("Lists submitted jobs, the newest first.");
    app.footer(kJobsExamples);
    app.add_option("--state", query.states,
                   "Only jobs in these states: queued, starting, running, stopping, succeeded, "
                   "failed, stopped")
        ->delimiter(',')
        ->take_all()
        ->type_name("STATE");
    app.add_option("--user", query.user, "Only jobs of this user")->type_name("NAME");
    app.add_option("--name", query.name, "Only jobs with this text in their names")
        ->type_name("TEXT");
    app.add_option("--tag", query.tag, "Only jobs with this tag")->type_name("KEY[=VALUE]");
    app.add_option("--queue", query.queue, "Only jobs of this queue")->type_name("NAME");
    app.add_option("--limit", query.limit, "At most so many [50]")->type_name("N");
    app.add_flag("--json", arguments->json, "As a JSON array");
    return [arguments](const Words&, const Words&) { return list_jobs(*arguments); };
  };
  return {"jobs", "list submitted jobs", "[options]", declare};
}

}  // namespace cohort::tools

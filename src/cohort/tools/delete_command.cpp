#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/platform_client.h"
#include "cohort/tools/question.h"

namespace cohort::tools {
namespace {

constexpr const char* kDeleteExamples = R"(
Examples:
  cohort delete mnist
      after a question, with model, output and logs
  cohort delete 20261116-190102 20261116-190107 --yes
      two jobs, without one

Only jobs that have ended. The exit code is 0 when all are gone, 1 when the answer was no, 2 when a
job is not known or runs: jobs named before it are gone then.
)";

struct DeleteArguments {
  std::vector<std::string> jobs;
  bool yes = false;
};

int delete_jobs(const DeleteArguments& arguments) {
  if (arguments.jobs.empty())
    throw InvalidInput("cohort delete needs a job", {.advice = "As in: cohort delete mnist"});
  sdk::ServiceClient client = service_with_job(arguments.jobs.front());
  std::vector<sdk::Job> jobs;
  std::vector<std::string> names;
  for (const auto& name : arguments.jobs) {
    jobs.push_back(client.job(job_name(client, name)));
    names.push_back(fmt::format("{} ({})", jobs.back().id, jobs.back().name));
  }
  if (!arguments.yes) {
    if (!can_ask())
      throw InvalidInput("cohort delete asks before it deletes, and there is no terminal",
                         {.advice = "Add --yes."});
    if (ask_person(fmt::format("Delete {} with model, output and logs?",
                               escape_controls(join(names, ", "))),
                   "yn") != 'y') {
      fmt::print("nothing was deleted\n");
      return 1;
    }
  }
  for (const auto& job : jobs) {
    client.remove(job.id);
    fmt::print("job {} is gone\n", escape_controls(job.id));
  }
  return 0;
}

}  // namespace

Command delete_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto arguments = std::make_shared<DeleteArguments>();
    app.description("Removes submitted jobs that have ended, with their files.");
    app.footer(kDeleteExamples);
    app.add_option("JOB", arguments->jobs, "Job ids (or their beginnings), names, or latest");
    app.add_flag("-y,--yes", arguments->yes, "Do not ask");
    return [arguments](const Words&, const Words&) { return delete_jobs(*arguments); };
  };
  return {"delete", "remove submitted jobs and their files", "JOB... [--yes]", declare};
}

}  // namespace cohort::tools

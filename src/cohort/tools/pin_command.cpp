#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/platform_client.h"

namespace cohort::tools {
namespace {

int pin_jobs(const std::vector<std::string>& names, bool pinned) {
  const char* word = pinned ? "pin" : "unpin";
  if (names.empty())
    throw InvalidInput(fmt::format("cohort {} needs a job", word),
                       {.advice = fmt::format("As in: cohort {} latest", word)});
  sdk::ServiceClient client = service_with_job(names.front());
  for (const auto& name : names) {
    const sdk::Job job = client.pin(job_name(client, name), pinned);
    fmt::print("job {} {}\n", escape_controls(job.id),
               pinned ? "is kept until it is unpinned or deleted" : "is pinned no longer");
  }
  return 0;
}

Command pinning_command(bool pinned) {
  const std::string name = pinned ? "pin" : "unpin";
  auto declare = [pinned, name](CLI::App& app) -> Action {
    auto names = std::make_shared<std::vector<std::string>>();
    app.description(pinned ? "Keeps submitted jobs, whatever retention removes."
                           : "Lets retention remove jobs again that were pinned.");
    app.footer(
        fmt::format("\nExamples:\n  cohort {} mnist\n\nThe exit code is 0 when it was done, "
                    "2 when a job is not known.\n",
                    name));
    app.add_option("JOB", *names, "Job ids (or their beginnings), names, or latest");
    return [names, pinned](const Words&, const Words&) { return pin_jobs(*names, pinned); };
  };
  return {name, pinned ? "keep submitted jobs for good" : "let retention remove jobs again",
          "JOB...", declare};
}

}  // namespace

Command pin_command() { return pinning_command(true); }
Command unpin_command() { return pinning_command(false); }

}  // namespace cohort::tools

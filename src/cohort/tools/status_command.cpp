#include "cohort/tools/status_command.h"

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/tools/command_line.h"
#include "cohort/tools/find_job.h"
#include "cohort/tools/job_connection.h"
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
)";

class StatusFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: cohort status JOB [options]\n";
  }
};

void show(const KnownJob& job, const StatusArguments& arguments) {
  if (arguments.json) {
    auto json = job.record;
    json["launcher_answers"] = job.launcher_answers;
    json["launcher_trouble"] = nullptr;
    if (!job.trouble.empty()) json["launcher_trouble"] = job.trouble;
    fmt::print("{}\n", json.dump(arguments.watch ? -1 : 2, ' ', /*ensure_ascii=*/true,
                                 nlohmann::ordered_json::error_handler_t::replace));
  } else {
    const bool redraw = arguments.watch && ::isatty(STDOUT_FILENO) == 1;
    fmt::print("{}{}", redraw ? "\033[H\033[2J" : "", status_text(job));
  }
  std::fflush(stdout);
}

}  // namespace

void declare_status_options(CLI::App& app, StatusArguments& arguments) {
  app.formatter(std::make_shared<StatusFormatter>());
  app.description("Shows what a job does now, or how it ended.");
  app.footer(kStatusExamples);
  app.set_help_flag("-h,--help", "This text");
  app.add_option("JOB", arguments.job,
                 "Output folder, job id (or its beginning) under ./cohort-output, or latest");
  app.add_flag("--json", arguments.json, "As JSON");
  app.add_flag("--watch", arguments.watch, "Again every second, until the job has ended");
}

int status_command(const std::vector<std::string>& words, const std::vector<std::string>&) {
  StatusArguments arguments;
  CLI::App app("", "status");
  declare_status_options(app, arguments);
  if (!parse_words(app, words)) return 0;
  if (app.count("JOB") == 0)
    throw InvalidInput("cohort status needs a job", {.advice = "As in: cohort status latest"});
  const auto output = find_job(arguments.job);
  while (true) {
    const KnownJob job = look_at_job(output, Deadline::after(kStatusTime));
    show(job, arguments);
    if (!arguments.watch || !job.launcher_answers) return 0;
    std::this_thread::sleep_for(kPeriod);
  }
}

}  // namespace cohort::tools

#include "cohort/tools/scale_command.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/tools/command_line.h"
#include "cohort/tools/find_job.h"
#include "cohort/tools/job_connection.h"

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

The exit code is 0 when the job has that many members (with --no-wait: when it was told), 1 when it
has not within the time, 2 when the job refuses.
)";

class ScaleFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: cohort scale JOB N [options]\n";
  }
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

}  // namespace

void declare_scale_options(CLI::App& app, ScaleArguments& arguments) {
  app.formatter(std::make_shared<ScaleFormatter>());
  app.description("Gives a running elastic job another number of workers.");
  app.footer(kScaleExamples);
  app.set_help_flag("-h,--help", "This text");
  app.add_option("JOB", arguments.job,
                 "Output folder, job id (or its beginning) under ./cohort-output, or latest");
  app.add_option("N", arguments.workers, "Workers from now on");
  app.add_flag("--no-wait", arguments.no_wait, "Do not wait until the job has so many");
  app.add_option("--timeout", arguments.timeout, "Seconds to wait [60]")->type_name("S");
}

int scale_command(const std::vector<std::string>& words, const std::vector<std::string>&) {
  ScaleArguments arguments;
  CLI::App app("", "scale");
  declare_scale_options(app, arguments);
  if (!parse_words(app, words)) return 0;
  if (app.count("JOB") == 0 || app.count("N") == 0)
    throw InvalidInput("cohort scale needs a job and a number of workers",
                       {.advice = "As in: cohort scale latest 4"});
  if (!(arguments.timeout >= 0 && arguments.timeout <= 1e6))
    throw InvalidInput(fmt::format("--timeout is {} s", arguments.timeout),
                       {.advice = "Give 0 to 1000000 seconds."});
  if (arguments.workers < 1)
    throw InvalidInput(fmt::format("{} workers cannot be", arguments.workers),
                       {.advice = "Give 1 or more."});
  const auto output = find_job(arguments.job);
  const auto deadline = Deadline::after(
      std::chrono::milliseconds(static_cast<std::int64_t>(arguments.timeout * 1000)));
  const ordered_json answer = request(
      output, {{"command", "scale"}, {"workers", arguments.workers}}, Deadline::after(kAnswerTime));
  fmt::print("{}\n", escape_controls(answer.value("message", "")));
  std::fflush(stdout);
  return arguments.no_wait ? 0 : wait_until_scaled(output, arguments.workers, deadline);
}

}  // namespace cohort::tools

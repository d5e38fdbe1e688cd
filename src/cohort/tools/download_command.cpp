#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/report/live_line.h"
#include "cohort/sdk/download.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/platform_client.h"

namespace cohort::tools {
namespace {

constexpr int kInterruptedDownload = 130;
constexpr std::chrono::milliseconds kRedraw{200};

constexpr const char* kDownloadExamples = R"(
Examples:
  cohort download mnist results
      model, output and logs of a job into the folder results
  cohort download latest . --part model
      the trained model alone, into ./model

Files keep their names below the folder (model/, output/, logs/); those that are there already are
replaced. Once a job has ended, every file is checked to have come whole. The exit code is 0 then, 1
when something did not, 2 when the job is not known, 130 after Ctrl-C.
)";

struct DownloadArguments {
  std::string job, folder, part = "all";
};

std::string size_text(std::uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s");
  return bytes < 1'000'000 ? fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3)
                           : fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

int download_job(const DownloadArguments& arguments) {
  if (arguments.job.empty() || arguments.folder.empty())
    throw InvalidInput("cohort download needs a job and a folder",
                       {.advice = "As in: cohort download latest results"});
  if (arguments.part != "model" && arguments.part != "output" && arguments.part != "all")
    throw InvalidInput(fmt::format("--part '{}' is not one of model, output, all", arguments.part));
  Interruption interruption;
  sdk::ServiceClient client = service_with_job(arguments.job, interruption.cancel());
  const std::string job = job_name(client, arguments.job);
  report::LiveLine line(STDERR_FILENO);
  const bool is_live = report::is_live_terminal(STDERR_FILENO);
  auto drawn = std::chrono::steady_clock::time_point();
  try {
    const sdk::Downloaded done = sdk::download_files(
        client, job, arguments.part, arguments.folder, [&](std::uint64_t bytes, std::uint64_t all) {
          const auto now = std::chrono::steady_clock::now();
          if (!is_live || now - drawn < kRedraw) return;
          drawn = now;
          line.show(fmt::format("{} of {}", size_text(bytes), size_text(all)));
        });
    line.erase();
    fmt::print("{} file{}, {}, in {}\n", done.files, done.files == 1 ? "" : "s",
               size_text(done.bytes), arguments.folder);
    if (done.left_out > 0) fmt::print("{} links were left out\n", done.left_out);
  } catch (const HttpCancelled&) {
    return kInterruptedDownload;
  }
  return 0;
}

}  // namespace

Command download_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto arguments = std::make_shared<DownloadArguments>();
    app.description("Copies the files of a submitted job into a folder.");
    app.footer(kDownloadExamples);
    app.add_option("JOB", arguments->job, "Job id (or its beginning), name, or latest");
    app.add_option("DIR", arguments->folder, "Folder; made unless it is there")->type_name("DIR");
    app.add_option("--part", arguments->part, "Which files [all]")->type_name("model|output|all");
    return [arguments](const Words&, const Words&) { return download_job(*arguments); };
  };
  return {"download", "copy the files of a submitted job", "JOB DIR [--part model|output|all]",
          declare};
}

}  // namespace cohort::tools

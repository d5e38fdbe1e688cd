#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "cohort/base/error.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/find_job.h"
#include "cohort/tools/ledger_text.h"

namespace cohort::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLedger = "ledger";

constexpr const char* kLedgerExamples = R"(
Examples:
  cohort ledger verify latest
      did each sample of each epoch enter exactly one update of the newest job?
  cohort ledger show runs/big --epoch 0 --csv > epoch0.csv
      who computed which samples in which step, and in which view

`verify` ends with 0 when that is proven, with 1 when it is not.
)";

struct LedgerArguments {
  std::string what;  // verify or show
  std::string job;   // or the ledger's file
  std::optional<std::int64_t> epoch;
  bool json = false;
  bool csv = false;
};

fs::path find_ledger(const std::string& name) {
  if (fs::is_regular_file(name)) return name;
  const fs::path path = find_job(name) / kLedger;
  if (!fs::exists(path))
    throw InvalidInput(fmt::format("there is no '{}'", path.string()),
                       {.advice = "Only elastic jobs that have trained a step keep a ledger."});
  return path;
}

int read_or_prove(const LedgerArguments& arguments) {
  if (arguments.what != "verify" && arguments.what != "show")
    throw InvalidInput(arguments.what.empty()
                           ? std::string("cohort ledger needs to know what to do")
                           : fmt::format("cohort ledger cannot '{}'", arguments.what),
                       {.advice = "As in: cohort ledger verify latest (or show)"});
  if (arguments.job.empty())
    throw InvalidInput("cohort ledger needs a job or a ledger's file",
                       {.advice = fmt::format("As in: cohort ledger {} latest", arguments.what)});
  const auto ledger = membership::read_ledger(find_ledger(arguments.job));
  if (arguments.what == "show") {
    fmt::print("{}", show_text(ledger, arguments.epoch,
                               arguments.csv ? ShowFormat::csv : ShowFormat::table));
    return 0;
  }
  const auto report = membership::verify(ledger);
  fmt::print("{}", arguments.json ? verify_json(ledger, report) : verify_text(ledger, report));
  return report.problems.empty() ? 0 : 1;
}

}  // namespace

Command ledger_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto arguments = std::make_shared<LedgerArguments>();
    app.description("Proves, or shows, which samples entered which update of a training.");
    app.footer(kLedgerExamples);
    app.add_option("WHAT", arguments->what, "What to do")->type_name("verify|show");
    app.add_option("JOB", arguments->job,
                   "Output folder, job id (or its beginning) under ./cohort-output, latest, or a "
                   "ledger's file");
    app.add_flag("--json", arguments->json, "verify: as JSON");
    app.add_option("--epoch", arguments->epoch, "show: of this epoch alone")->type_name("E");
    app.add_flag("--csv", arguments->csv, "show: as comma-separated values");
    return [arguments](const Words&, const Words&) { return read_or_prove(*arguments); };
  };
  return {"ledger", "prove or show which samples entered which update",
          "verify|show JOB|FILE [options]", declare};
}

}  // namespace cohort::tools

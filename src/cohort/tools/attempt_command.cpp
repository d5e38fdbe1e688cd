#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/engine/attempt_start.h"
#include "cohort/engine/supervisor_process.h"
#include "cohort/launch/process/leftovers.h"
#include "cohort/launch/supervise/supervisor.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/run_command.h"

namespace cohort::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kOldProcessTime{10};

// Tells the process that started this supervisor, by standard output. What the launcher writes there
// later, the lines of all tasks, is in their logs.
void say_whose_it_is(bool is_ours) {
  const std::string_view word = is_ours ? "claimed\n" : "taken\n";
  const auto before = ::signal(SIGPIPE, SIG_IGN);  // that process may have been killed meanwhile
  if (::write(STDOUT_FILENO, word.data(), word.size()) < 0)
    log::debug("the submitting process is gone");
  ::signal(SIGPIPE, before);
  ::dup2(STDIN_FILENO, STDOUT_FILENO);  // /dev/null
}

int run_attempt(const engine::AttemptFolder& folder) {
  const engine::AttemptRequest request = engine::read_request(folder);
  const RunWords words{.arguments = request.job.run_words, .program = request.job.program};
  const launch::JobOptions asked = parse_run_words(words).job;
  launch::JobOptions options = engine::attempt_options(request, asked, engine::this_program());
  launch::settle(options);
  engine::put_in_place(request, asked);
  if (request.resume) launch::end_leftovers(options.id, -1, Deadline::after(kOldProcessTime));
  return launch::Supervisor(options, engine::attempt_environment(request), "").run();
}

int supervise(const std::string& place) {
  const engine::AttemptFolder folder{fs::absolute(place)};
  const bool is_ours = engine::claim_attempt(folder);
  say_whose_it_is(is_ours);
  if (!is_ours || fs::exists(folder.stop_mark())) return 0;
  try {
    return run_attempt(folder);
  } catch (const std::exception& error) {
    engine::write_early_end(folder, error.what());
    throw;
  }
}

}  // namespace

Command attempt_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto folder = std::make_shared<std::string>();
    app.description(
        "Runs one attempt of a submitted job. The service starts this command by itself, once for\n"
        "each attempt; a second start of the same one ends at once.");
    app.add_option("FOLDER", *folder, "Of the attempt")->required();
    return [folder](const Words&, const Words&) { return supervise(*folder); };
  };
  return {"attempt", "", "", declare};
}

}  // namespace cohort::tools

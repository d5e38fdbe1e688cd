#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/process/process.h"
#include "cohort/cluster/environment.h"
#include "cohort/engine/attempt_start.h"
#include "cohort/engine/container_keeper.h"
#include "cohort/engine/container_tool.h"
#include "cohort/engine/slurm/slurm_attempt.h"
#include "cohort/engine/supervisor_process.h"
#include "cohort/engine/task_start.h"
#include "cohort/launch/process/leftovers.h"
#include "cohort/launch/record/job_record.h"
#include "cohort/launch/supervise/supervisor.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/run_command.h"

namespace cohort::tools {
namespace {

namespace fs = std::filesystem;

using engine::SlurmTurn;

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

void remove_old_containers(const std::string& job) {
  engine::remove_containers(engine::kJobLabel, job, cluster::Environment::of_this_process());
}

// `under_slurm`: which turn of its Slurm job this is.
int run_attempt(const engine::AttemptFolder& folder, std::optional<SlurmTurn> under_slurm) {
  engine::AttemptRequest request = engine::read_request(folder);
  const auto environment = cluster::Environment::of_this_process();
  const RunWords words{.arguments = request.job.run_words, .program = request.job.program};
  launch::JobOptions asked = parse_run_words(words).job;
  const bool again = under_slurm == SlurmTurn::again;
  if (again && !request.resume) {  // the tasks read it from there
    request.resume = true;
    engine::write_request(request);
  }
  if (under_slurm) engine::place_on_allocation(request, environment, asked);
  launch::JobOptions options = engine::attempt_options(request, asked, engine::this_program());
  options.resume = again && fs::exists(folder.run() / launch::OutputFolder::kRecord);
  launch::settle(options);
  engine::put_in_place(request, asked);
  if (request.resume) launch::end_leftovers(options.id, -1, Deadline::after(kOldProcessTime));
  if (engine::has_image(request.job)) {
    if (request.resume) remove_old_containers(options.id);
    engine::start_container_keeper(request, options.id);
  }
  return launch::Supervisor(options, engine::attempt_environment(request), "").run();
}

int supervise(const std::string& place, bool slurm) {
  const engine::AttemptFolder folder{fs::absolute(place)};
  std::optional<SlurmTurn> turn;
  if (slurm) turn = engine::claim_for_slurm(folder, cluster::Environment::of_this_process());
  const bool is_ours = slurm ? turn != SlurmTurn::taken
                             : engine::claim_attempt(folder, process_identity(::getpid()));
  say_whose_it_is(is_ours);
  if (!is_ours || fs::exists(folder.stop_mark())) return 0;
  try {
    return run_attempt(folder, turn);
  } catch (const std::exception& error) {
    engine::write_early_end(folder, error.what());
    throw;
  }
}

}  // namespace

Command attempt_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto folder = std::make_shared<std::string>();
    auto slurm = std::make_shared<bool>(false);
    app.description(
        "Runs one attempt of a submitted job. The service starts this command by itself, once for\n"
        "each attempt; a second start of the same one ends at once.");
    app.add_option("FOLDER", *folder, "Of the attempt")->required();
    app.add_flag("--slurm", *slurm, "In a Slurm job: its nodes are the hosts");
    return [folder, slurm](const Words&, const Words&) { return supervise(*folder, *slurm); };
  };
  return {"attempt", "", "", declare};
}

}  // namespace cohort::tools

// The `cohort` command: finds the subcommand and turns errors into a line and an exit code.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/process/limits.h"
#include "cohort/base/text.h"
#include "cohort/base/version.h"
#include "cohort/tools/commands.h"

namespace cohort::tools {
namespace {

constexpr const char* kHelp = R"help(cohort: distributed deep-learning training for C++

Usage: cohort COMMAND [options]

Commands:
{commands}
Options:
  -h, --help  this text; cohort COMMAND --help tells more
  --version   the version

Examples:
  cohort run -n 4 -- ./train --epochs 3
  cohort run -n 2 -- python3 ddp.py
  cohort run -n 2:8 --elastic -- ./train --epochs 3
  cohort submit -n 2 -- ./train --epochs 3
  cohort logs -f latest
  cohort doctor
  eval "$(cohort completion bash)"
)help";

// In the order in which help names them.
std::vector<Command> all_commands() {
  return {run_command(),       status_command(),  scale_command(),
          resume_command(),    serve_command(),   submit_command(),
          jobs_command(),      logs_command(),    stop_command(),
          download_command(),  delete_command(),  pin_command(),
          unpin_command(),     events_command(),  top_command(),
          open_command(),      attach_command(),  token_command(),
          job_command(),       ledger_command(),  bench_command(),
          tune_command(),      doctor_command(),  completion_command(all_commands),
          host_task_command(), attempt_command(), exec_task_command(),
          pod_task_command()};
}

std::string help() {
  std::string list;
  for (const Command& command : all_commands())
    if (!command.summary.empty())
      list += fmt::format("  {:<12}{}\n", command.name, command.summary);
  return fmt::format(fmt::runtime(kHelp), fmt::arg("commands", list));
}

// What others call it: {their word, ours}.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"sbatch", "submit"},   {"squeue", "jobs"}, {"sacct", "jobs"},     {"list", "jobs"},
    {"ls", "jobs"},         {"ps", "jobs"},     {"scancel", "stop"},   {"cancel", "stop"},
    {"kill", "stop"},       {"srun", "run"},    {"torchrun", "run"},   {"horovodrun", "run"},
    {"mpirun", "run"},      {"rm", "delete"},   {"remove", "delete"},  {"tail", "logs"},
    {"describe", "status"}, {"info", "status"}, {"show", "status"},    {"scontrol", "status"},
    {"sinfo", "top"},       {"cp", "download"}, {"requeue", "resume"},
};

Command find_command(const std::string& name) {
  Words names;
  for (Command& command : all_commands()) {
    if (command.name == name) return std::move(command);
    names.push_back(command.name);
  }
  std::string meant = nearest(name, names);
  for (const auto& [other, ours] : kOtherNames)
    if (other == name) meant = ours;
  throw InvalidInput(fmt::format("unknown command '{}'", name),
                     {.advice = meant.empty() ? "See: cohort --help"
                                              : fmt::format("Did you mean: cohort {}?", meant)});
}

int dispatch(const Words& all) {
  if (all.empty()) {
    std::cerr << help();
    return 2;
  }
  const std::string& first = all.front();
  if (first == "--version") {
    std::cout << "cohort " << kVersion << "\n";
    return 0;
  }
  if (first == "-h" || first == "--help" || first == "help") {
    std::cout << help();
    return 0;
  }
  const DeclaredCommand command(find_command(first));
  const auto separator = std::find(all.begin() + 1, all.end(), "--");
  const Words words(all.begin() + 1, separator);
  if (!parse_words(*command.app, words)) return 0;
  return command.action(words,
                        Words(separator == all.end() ? separator : separator + 1, all.end()));
}

// Where the caller has closed one of them, a job's own pipe or folder must not get its number and
// be written to as if it were the screen.
void open_standard_descriptors() {
  int fd;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd > STDERR_FILENO) ::close(fd);
}

}  // namespace
}  // namespace cohort::tools

int main(int argc, char** argv) {
  cohort::tools::open_standard_descriptors();
  try {
    return cohort::tools::dispatch({argv + 1, argv + argc});
  } catch (const cohort::InvalidInput& error) {
    cohort::log::error("{}", error.what());
    return 2;
  } catch (const std::filesystem::filesystem_error& error) {
    std::error_code gone;
    static_cast<void>(std::filesystem::current_path(gone));
    cohort::log::error("{}{}", error.what(),
                       gone ? ". The folder in which this was called is gone: go to another." : "");
    return 1;
  } catch (const std::system_error& error) {
    cohort::log::error("{}. {}", error.what(), cohort::limits_advice());
    return 1;
  } catch (const std::bad_alloc&) {
    cohort::log::error("out of memory. {}", cohort::limits_advice());
    return 1;
  } catch (const std::exception& error) {
    cohort::log::error("{}", error.what());
    return 1;
  }
}

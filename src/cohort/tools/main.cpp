// The `cohort` command: finds the subcommand and turns errors into a line and an exit code.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/process/limits.h"
#include "cohort/base/text.h"
#include "cohort/base/version.h"
#include "cohort/tools/bench_command.h"
#include "cohort/tools/completion.h"
#include "cohort/tools/doctor.h"
#include "cohort/tools/host_task_command.h"
#include "cohort/tools/ledger_command.h"
#include "cohort/tools/resume_command.h"
#include "cohort/tools/run_command.h"
#include "cohort/tools/scale_command.h"
#include "cohort/tools/status_command.h"
#include "cohort/tools/tune_command.h"

namespace cohort::tools {
namespace {

constexpr const char* kHelp = R"help(cohort: distributed deep-learning training for C++

Usage: cohort COMMAND [options]

Commands:
  run         start, watch and end a distributed job
  status      show what a job does now, or how it ended
  scale       give a running elastic job another number of workers
  resume      go on with a job whose launcher died
  ledger      prove or show which samples entered which update
  bench       measure this machine: cohort bench collective
  tune        measure the collective algorithms here and write which to use
  doctor      check this machine and say what is wrong and how to mend it
  completion  print a completion script for bash, zsh or fish

Options:
  -h, --help  this text; cohort COMMAND --help tells more
  --version   the version

Examples:
  cohort run -n 4 -- ./train --epochs 3
  cohort run -n 2 -- python3 ddp.py
  cohort run -n 2:8 --elastic -- ./train --epochs 3
  cohort doctor
  eval "$(cohort completion bash)"
)help";

using Words = std::vector<std::string>;

int dispatch(const Words& all) {
  const std::map<std::string, std::function<int(const Words&, const Words&)>> commands = {
      {"run", run_command},
      {"status", status_command},
      {"scale", scale_command},
      {"resume", resume_command},
      {"ledger", ledger_command},
      {"bench", bench_command},
      {"tune", tune_command},
      {"doctor", doctor_command},
      {"host-task", host_task_command},
      {"completion", completion_command}};
  if (all.empty()) {
    std::cerr << kHelp;
    return 2;
  }
  const std::string& first = all.front();
  if (first == "--version") {
    std::cout << "cohort " << kVersion << "\n";
    return 0;
  }
  if (first == "-h" || first == "--help" || first == "help") {
    std::cout << kHelp;
    return 0;
  }
  auto command = commands.find(first);
  if (command == commands.end()) {
    Words names;
    for (const auto& [name, function] : commands) names.push_back(name);
    std::string meant = nearest(first, names);
    throw InvalidInput(fmt::format("unknown command '{}'", first),
                       {.advice = meant.empty() ? "See: cohort --help"
                                                : fmt::format("Did you mean: cohort {}?", meant)});
  }
  auto separator = std::find(all.begin() + 1, all.end(), "--");
  Words behind(separator == all.end() ? separator : separator + 1, all.end());
  return command->second(Words(all.begin() + 1, separator), behind);
}

// Whoever starts us with one of them closed must not have a job's own pipe or folder take its
// number and be written to as if it were the screen.
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

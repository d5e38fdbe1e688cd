#include "cohort/engine/mpi_start.h"

#include <algorithm>
#include <regex>

#include "cohort/base/error.h"
#include "cohort/base/process/machine.h"
#include "cohort/base/text.h"

namespace cohort::engine {
std::string host_file_text(const std::vector<launch::Host>& hosts, int processes) {
  if (hosts.empty()) return fmt::format("localhost slots={}\n", processes);
  const auto count = static_cast<int>(hosts.size());
  const int each = (processes + count - 1) / count;
  std::string text;
  for (const launch::Host& host : hosts)
    text += fmt::format("{} slots={}\n", host.name, host.slots.value_or(each));
  return text;
}

std::vector<std::string> mpirun_command(const AttemptRequest& request,
                                        const launch::JobOptions& asked) {
  const AttemptFolder folder{request.folder};
  std::vector<std::string> words = {"mpirun", "--hostfile", folder.host_file().string(),
                                    "--tag-output", "--merge-stderr-to-stdout"};
  if (request.job.processes > usable_cores()) words.push_back("--oversubscribe");
  // Under Slurm mpirun starts its daemons with srun by itself.
  if (!asked.hosts.empty() && request.job.spec.engine != "slurm") {
    std::string agent = asked.remote.shell;
    words.insert(words.end(), {"--mca", "plm_rsh_agent", agent, "-x", kTaskVariable});
  }
  words.insert(words.end(), request.job.mpirun_words.begin(), request.job.mpirun_words.end());
  return words;
}

std::map<std::string, std::string> mpirun_variables() {
  return {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
}

std::string killed_rank(std::string_view log) {
  static const std::regex kReport(
      R"(process rank (\d+) with PID \d+ on node (\S+) exited on signal (\d+))");
  std::match_results<std::string_view::const_iterator> found;
  if (!std::regex_search(log.begin(), log.end(), found, kReport)) return "";
  return fmt::format("rank {} on {} was killed by signal {}", found[1].str(), found[2].str(),
                     found[3].str());
}

}  // namespace cohort::engine

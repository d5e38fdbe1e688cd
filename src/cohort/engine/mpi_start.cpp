#include "cohort/engine/mpi_start.h"

#include <algorithm>
#include <array>
#include <regex>

#include "cohort/base/error.h"
#include "cohort/base/process/machine.h"
#include "cohort/base/text.h"

namespace cohort::engine {
namespace {

// "[1,3]<stderr>:text" -> "text"; nothing for the line of another rank, or of mpirun.
std::optional<std::string_view> said_by(std::string_view line, std::string_view rank) {
  for (const char* stream : {"stderr", "stdout"}) {
    const std::string tag = fmt::format("[1,{}]<{}>:", rank, stream);
    if (line.starts_with(tag)) return trim(line.substr(tag.size()));
  }
  return std::nullopt;
}

}  // namespace

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
  std::vector<std::string> words = {"mpirun",
                                    "--hostfile",
                                    folder.host_file().string(),
                                    "--tag-output",
                                    "--merge-stderr-to-stdout",
                                    "--output-filename",
                                    folder.ranks().string()};
  if (request.job.processes > usable_cores()) words.push_back("--oversubscribe");
  if (!asked.hosts.empty()) {
    std::string agent = asked.remote.shell;
    words.insert(words.end(), {"--mca", "plm_rsh_agent", agent, "-x", kTaskVariable});
  }
  words.insert(words.end(), request.job.mpirun_words.begin(), request.job.mpirun_words.end());
  return words;
}

std::map<std::string, std::string> mpirun_variables() {
  return {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
}

std::string failed_rank(std::string_view log) {
  // The line of a rank, then two forms of mpirun's report, which it does not always write.
  static const std::array<std::regex, 4> kReports = {
      std::regex(R"(\]<stdout>:rank (\d+) (ended with exit code \d+)\n)"),
      std::regex(R"(\]<stdout>:rank (\d+) (was killed by signal \d+ \(\w+\))\n)"),
      std::regex(R"(Process name: \[\[\d+,\d+\],(\d+)\]\s+Exit code:\s+(\d+))"),
      std::regex(
          R"(process rank (\d+) with PID \d+ on node \S+ exited on signal (\d+ \([^)]*\)))")};
  static const std::array<const char*, 4> kHow = {"", "", "ended with exit code ",
                                                  "was killed by signal "};
  const std::string text(log);
  std::smatch found;
  std::size_t report = 0;
  while (report < kReports.size() && !std::regex_search(text, found, kReports[report])) ++report;
  if (report == kReports.size()) return "";
  const std::string rank = found[1].str();
  const std::string how = fmt::format("{}{}", kHow[report], found[2].str());
  std::string last;
  for (const std::string& line : split(text, '\n'))
    if (const auto said = said_by(line, rank); said && !said->empty() && !said->ends_with(how))
      last = *said;
  const std::string failure = fmt::format("rank {} {}", rank, how);
  return last.empty() ? failure : fmt::format("{}: {}", failure, escape_controls(last));
}

}  // namespace cohort::engine

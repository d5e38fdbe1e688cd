#include "cohort/engine/mpi_ranks.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/base/text.h"
#include "cohort/base/unique_fd.h"
#include "cohort/engine/line_relay.h"
#include "cohort/engine/rank_lines.h"
#include "cohort/engine/task_start.h"
#include "cohort/launch/process/process.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::size_t kMostRanksBytes = std::size_t{16} << 20;
constexpr std::size_t kEndOfLog = 2000;

std::string this_host() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

// What is known of the ranks of one mpirun. Confined to one thread.
class RankBoard {
 public:
  RankBoard(AttemptFolder folder, std::string attempt)
      : folder_(std::move(folder)), attempt_(std::move(attempt)) {
    write();  // those of an earlier start of the job have had their time
  }

  void add_text(int rank, std::string_view text) {
    unwritten_[rank] += text;
    std::string& end = ends_[rank];
    end += text.substr(text.size() - std::min(text.size(), kEndOfLog));
    if (end.size() > kEndOfLog) end.erase(0, end.size() - kEndOfLog);
  }

  void add_report(int rank, const RankReport& report) {
    TaskStatus& task = tasks_[rank];
    changed_ = true;
    task.name = fmt::format("rank:{}", rank);
    if (!report.ended) {
      task.host = report.host;
      task.started = report.time;
      task.state = "running";
      unwritten_[rank];  // its log is there from now on
      return;
    }
    const launch::ExitStatus exit{.code = report.code, .signal = report.signal};
    task.ended = report.time;
    task.exit_code = exit.shell_code();
    task.state = exit.success() ? "succeeded" : report.told ? "stopped" : "failed";
    if (task.state != "failed" || !failure_.empty()) return;
    failure_ = fmt::format("rank {} {} {}", rank, report.signal ? "was killed by" : "ended with",
                           launch::to_string(exit));
    if (const std::string last = last_line(rank); !last.empty()) failure_ += ": " + last;
  }

  // Files; once for all that came at a time.
  void write() {
    for (const auto& [rank, text] : unwritten_) append(rank, text);
    unwritten_.clear();
    if (!changed_) return;
    ordered_json ranks = ordered_json::array();
    for (const auto& [rank, task] : tasks_)
      ranks.push_back({{"name", task.name},
                       {"host", task.host},
                       {"state", task.state},
                       {"exit_code", task.exit_code ? ordered_json(*task.exit_code) : nullptr},
                       {"started", task.started},
                       {"ended", task.ended}});
    const ordered_json all{{"attempt", attempt_}, {"failure", failure_}, {"ranks", ranks}};
    try {
      write_file_atomically(folder_.rank_states(),
                            all.dump(-1, ' ', false, ordered_json::error_handler_t::replace), 0600);
      changed_ = false;
    } catch (const SystemError& error) {
      say_loss(error);
    }
  }

  // mpirun has ended: so have all ranks, whether they could tell or not.
  void finish() {
    for (auto& [rank, task] : tasks_)
      if (task.state == "running") task.state = "stopped";
    changed_ = true;
    write();
  }

 private:
  std::string last_line(int rank) {
    const auto lines = split(ends_[rank], '\n');
    for (auto line = lines.rbegin(); line != lines.rend(); ++line)
      if (const auto text = trim(*line); !text.empty()) return escape_controls(text);
    return "";
  }

  // Training goes on without them.
  void say_loss(const SystemError& error) {
    if (std::exchange(told_of_loss_, true)) return;
    fmt::print(stderr, "cohort: what the ranks say is not kept: {}\n", error.what());
  }

  void append(int rank, std::string_view text) {
    const fs::path path = folder_.ranks() / fmt::format("rank-{}.attempt{}.log", rank, attempt_);
    const UniqueFd file(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
    while (file && !text.empty()) {
      const ssize_t count = ::write(file.get(), text.data(), text.size());
      if (count < 0 && errno != EINTR) break;
      text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    }
    if (!text.empty())
      say_loss(SystemError(fmt::format("cannot write '{}'", path.string()), errno));
  }

  AttemptFolder folder_;
  std::string attempt_;
  std::map<int, TaskStatus> tasks_;
  std::map<int, std::string> unwritten_;
  std::map<int, std::string> ends_;  // of their logs
  std::string failure_;
  bool changed_ = true;
  bool told_of_loss_ = false;
};

}  // namespace

void begin_as_rank(const cluster::Environment& environment) {
  if (!environment.contains(kMpiRank)) return;
  write_to_output(encode_report({.time = utc_timestamp(), .host = this_host()}));
  const auto end =
      relay_lines({}, [](std::string_view text) { write_to_output(encode_text(text)); });
  if (!end) return;
  const bool killed = WIFSIGNALED(end->status);
  write_to_output(encode_report({.ended = true,
                                 .time = utc_timestamp(),
                                 .code = killed ? 0 : WEXITSTATUS(end->status),
                                 .signal = killed ? WTERMSIG(end->status) : 0,
                                 .told = end->told_to_end}));
  end_like(end->status);
}

void run_mpirun(const AttemptFolder& folder, const std::vector<std::string>& command,
                const cluster::Environment& environment) {
  RankBoard board(folder, environment.find_value("COHORT_ATTEMPT").value_or("1"));
  RankLines lines(
      {.text = [&](int rank, std::string_view text) { board.add_text(rank, text); },
       .report = [&](int rank, const RankReport& report) { board.add_report(rank, report); },
       .own = write_to_output});
  // A group of its own: a signal for this one reaches mpirun once, by the relay.
  const auto end = relay_lines({.errors = false, .own_group = true}, [&](std::string_view text) {
    lines.take(text);
    board.write();
  });
  if (!end) exec_task({.command = command, .environment = environment});
  lines.finish();
  board.finish();
  end_like(end->status);
}

Ranks read_ranks(const AttemptFolder& folder) {
  Ranks ranks;
  if (std::error_code code; !fs::exists(folder.rank_states(), code)) return ranks;
  ordered_json json;
  try {
    json = ordered_json::parse(read_own_file(folder.rank_states(), kMostRanksBytes), nullptr,
                               /*allow_exceptions=*/false);
  } catch (const SystemError&) {  // removed since
  }
  if (!json.is_object()) return ranks;
  ranks.failure = json.value("failure", "");
  const int attempt = static_cast<int>(parse_unsigned(json.value("attempt", "")).value_or(1));
  for (const auto& rank : json.value("ranks", ordered_json::array()))
    ranks.tasks.push_back({.name = rank.value("name", ""),
                           .host = rank.value("host", ""),
                           .state = rank.value("state", ""),
                           .exit_code = rank.at("exit_code").is_null()
                                            ? std::nullopt
                                            : std::optional<int>(rank.at("exit_code")),
                           .restarts = attempt - 1,
                           .started = rank.value("started", ""),
                           .ended = rank.value("ended", "")});
  return ranks;
}

}  // namespace cohort::engine

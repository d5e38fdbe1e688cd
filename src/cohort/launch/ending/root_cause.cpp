#include "cohort/launch/ending/root_cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <string_view>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/launch/output/error_line.h"
#include "cohort/launch/output/screen.h"

namespace cohort::launch {
namespace {

bool mentions(const TaskRecord& task, std::string_view words) {
  return std::any_of(task.last_lines.begin(), task.last_lines.end(), [&](const std::string& line) {
    return line.find(words) != std::string::npos;
  });
}

std::string how_a_bystander_ended(const TaskRecord& task) {
  if (!task.exit) return "did not start";
  if (task.exit->success()) return "exit code 0";
  if (task.stopped_by_launcher) return "stopped by cohort";
  std::string text = to_string(*task.exit);
  if (const auto peer = lost_peer(task)) return text + ", lost " + to_string(*peer);
  return looks_like_a_lost_peer(task) ? text + ", lost its peer" : text;
}

double seconds_of(std::chrono::milliseconds duration) {
  return static_cast<double>(duration.count()) / 1000.0;
}

// Another process's text, made fit for one line.
std::string one_line(const std::string& text) {
  constexpr std::size_t kMost = 500;
  std::vector<std::string> parts;
  for (const auto& line : split(text, '\n'))
    if (!trim(line).empty()) parts.emplace_back(trim(line));
  const std::string joined = join(parts, " ");
  return printable(joined.substr(0, kMost)) + (joined.size() > kMost ? " ..." : "");
}

// What it said of its end goes before what can be read from its output.
std::string last_words(const TaskRecord& task) {
  if (std::string said = one_line(task.last_word.message); !said.empty()) return said;
  if (!task.error_line.empty()) return task.error_line;
  ErrorLine found;
  for (const auto& line : task.last_lines) found.add(line);
  const std::string text = found.text(*task.exit);
  return text.empty() ? "it printed nothing" : text;
}

// The task that it names, which may be its own: "worker/1", "worker/1, replica 2".
std::optional<cluster::TaskId> named_peer(const LastWord& word) {
  if (word.kind != LastWord::Kind::lost_peer || word.peer.empty()) return std::nullopt;
  try {
    return cluster::parse_task_id(word.peer.substr(0, word.peer.find(',')));
  } catch (const InvalidInput&) {  // whatever else it wrote there
    return std::nullopt;
  }
}

const TaskRecord* find_task(const std::vector<TaskRecord>& tasks, const cluster::TaskId& id) {
  const auto found = std::find_if(tasks.begin(), tasks.end(),
                                  [&](const TaskRecord& task) { return task.id == id; });
  return found == tasks.end() ? nullptr : &*found;
}

// The task that `task` lost, the one that that lost, and so on to one that lost none. Nothing when the
// way leads in a circle or to a task that has not ended by itself.
const TaskRecord* follow_losses(const TaskRecord& task, const std::vector<TaskRecord>& failures,
                                const std::vector<TaskRecord>& all) {
  const TaskRecord* at = &task;
  for (std::size_t steps = 0; steps <= failures.size(); ++steps) {
    const auto peer = lost_peer(*at);
    if (!peer) return looks_like_a_lost_peer(*at) ? nullptr : at;
    const TaskRecord* next = find_task(failures, *peer);
    if (next == nullptr) {
      next = find_task(all, *peer);
      const bool ended_early =
          next != nullptr && next->exit && next->exit->success() && !next->stopped_by_launcher;
      return ended_early ? next : nullptr;
    }
    at = next;
  }
  return nullptr;
}

bool spoke_of_an_error(const TaskRecord& task) {
  return task.last_word.kind == LastWord::Kind::error;
}

// It said so itself, or a signal ended it.
bool has_a_reason(const TaskRecord& task) {
  return spoke_of_an_error(task) || (task.exit->signal != 0 && !looks_like_a_lost_peer(task));
}

// "worker/0 and worker/2 waited for it in all_reduce #3 of 1000 x f32".
std::string who_missed(const TaskRecord& cause, const std::vector<TaskRecord>& failures) {
  std::vector<std::string> names;
  std::string during;
  for (const auto& task : failures) {
    if (lost_peer(task) != cause.id) continue;
    names.push_back(to_string(task.id));
    if (during.empty()) during = one_line(task.last_word.during);
  }
  std::sort(names.begin(), names.end());
  if (names.size() > 1) {
    const std::string last = names.back();
    names.pop_back();
    names = {join(names, ", ") + " and " + last};
  }
  return names.empty() ? ""
                       : fmt::format("{} waited for it{}{}", names.front(),
                                     during.empty() ? "" : " in ", during);
}

}  // namespace

std::string how_it_ended(const TaskRecord& task) {
  if (task.exit->success())
    return fmt::format("ended with {} after {:.1f} s{}{}", to_string(*task.exit),
                       seconds_of(task.ran_for), task.missed_by.empty() ? "" : " while ",
                       task.missed_by);
  return fmt::format("{} {} after {:.1f} s{}", task.exit->signal ? "was killed by" : "failed with",
                     to_string(*task.exit), seconds_of(task.ran_for),
                     task.memory_evidence.empty() ? "" : ", out of memory");
}

std::optional<cluster::TaskId> lost_peer(const TaskRecord& task) {
  const auto peer = named_peer(task.last_word);
  return peer == task.id ? std::nullopt : peer;
}

bool looks_like_a_lost_peer(const TaskRecord& task) {
  if (task.last_word.kind == LastWord::Kind::error) return false;
  // One replica of the task lost another of the same task.
  if (task.last_word.kind == LastWord::Kind::lost_peer)
    return named_peer(task.last_word) != task.id;
  static constexpr std::string_view kPhrases[] = {
      "Connection reset by peer", "Connection closed by peer", "connection closed by peer",
      "Broken pipe", "Socket closed", "remote process exited", "lost its peer",
      "Connection refused", "Collective ops is aborted",
      "caused by an exception on one of the ranks",
      // Cohort's own, of tasks that gave no word
      " left the group", " aborted the group", " died (during ", " died while the group ",
      " died or was cut off", " did not take part in time", " left the store, so barrier "};
  return std::any_of(std::begin(kPhrases), std::end(kPhrases),
                     [&](std::string_view phrase) { return mentions(task, phrase); });
}

TaskRecord choose_root_cause(const std::vector<TaskRecord>& failures,
                             const std::vector<TaskRecord>& all) {
  for (const auto& task : failures) {
    if (!lost_peer(task)) continue;
    if (const TaskRecord* cause = follow_losses(task, failures, all)) {
      TaskRecord found = *cause;
      if (found.exit->success()) found.missed_by = who_missed(found, failures);
      return found;
    }
  }
  const bool spoken = std::any_of(failures.begin(), failures.end(), spoke_of_an_error);
  const auto first =
      spoken ? std::find_if(failures.begin(), failures.end(), has_a_reason)
             : std::find_if_not(failures.begin(), failures.end(), looks_like_a_lost_peer);
  return first != failures.end() ? *first : failures.front();
}

std::string summary_line(const TaskRecord& cause) {
  const std::string end = fmt::format("{} on {} (pid {}) {}", to_string(cause.id), cause.host,
                                      cause.pid, how_it_ended(cause));
  return cause.exit->success() ? end : fmt::format("{}: {}", end, last_words(cause));
}

std::string advice(const TaskRecord& cause) {
  static constexpr std::pair<std::string_view, std::string_view> kByWords[] = {
      {"CUDA out of memory", "Lower the batch size: the GPU's memory ran out."},
      {"bad_alloc", "Lower the batch size or the number of workers: memory ran out."},
      {"MemoryError", "Lower the batch size or the number of workers: memory ran out."},
      {"Too many open files", "Raise the limit on open files (ulimit -n) before cohort run."},
      {"No space left on device", "Make room on the disk, or choose another --output."},
      {"Address already in use",
       "The program listens on a port of its own choice; let it use the one in TF_CONFIG or "
       "MASTER_PORT, which is reserved for it."},
      {"ModuleNotFoundError",
       "Install that module into the Python that runs the program, or start "
       "the right one: cohort run ... -- /path/to/venv/bin/python ..."},
      {"error while loading shared libraries",
       "Set LD_LIBRARY_PATH with --env, or install the "
       "library."},
      {"Invalid task type", "Give each task a TASK_TYPE of worker or ps."},
      {"Traceback (most recent call last)",
       "Read the Python traceback above: its last line says what went wrong."},
  };
  if (cause.exit->success())
    return cause.last_word.kind == LastWord::Kind::done
               ? "Let every worker make the same collective calls, and call leave() after the last."
               : "Let every worker make the same collective calls: find out why this one returned "
                 "before the others.";
  if (!cause.memory_evidence.empty())
    return "Lower the batch size or the number of workers, or give the machine more memory.";
  for (const auto& [words, text] : kByWords)
    if (mentions(cause, words)) return std::string(text);
  switch (cause.exit->signal) {
    case SIGKILL:
      return "Something outside killed it: look for a memory limit, a scheduler, or a person "
             "(dmesg, journalctl).";
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGABRT:
      return "It crashed in native code: allow a core file (ulimit -c unlimited), run again, and "
             "open it with gdb.";
    case 0:
      break;
    default:
      return fmt::format("Find out who sends {}.", signal_name(cause.exit->signal));
  }
  if (cause.exit->code == 126 || cause.exit->code == 127)
    return "A shell could not run the command: check its name and path.";
  return "Read its full log; to see it alone, run the program with: cohort run -n 1 -- ...";
}

std::string root_cause_report(const TaskRecord& cause, const std::vector<TaskRecord>& all) {
  std::string text = fmt::format("\nRoot cause: {} on {}, pid {}, attempt {}", to_string(cause.id),
                                 cause.host, cause.pid, cause.attempt);
  if (cause.restarts > 0) text += fmt::format(", restart {}", cause.restarts);
  text += "\n";
  auto add = [&](std::string_view label, std::string_view value) {
    text += fmt::format("  {:<10} {}\n", label, value);
  };
  add("ended",
      fmt::format("{} after {:.1f} s{}{}", to_string(*cause.exit), seconds_of(cause.ran_for),
                  cause.missed_by.empty() ? "" : " while ", cause.missed_by));
  if (!cause.memory_evidence.empty()) add("memory", cause.memory_evidence);
  add("peak",
      fmt::format("{:.1f} MB of memory", static_cast<double>(cause.peak_memory_kib) * 1.024e-3));
  if (cause.last_lines.empty()) {
    add("output", "it printed nothing");
  } else {
    add("output", cause.last_lines.size() == 1
                      ? "its last line:"
                      : fmt::format("its last {} lines:", cause.last_lines.size()));
    for (const auto& line : cause.last_lines) text += "    | " + line + "\n";
  }
  std::vector<std::string> others;
  for (const auto& task : all)
    if (task.id != cause.id)
      others.push_back(fmt::format("{} ({})", to_string(task.id), how_a_bystander_ended(task)));
  if (!others.empty()) add("collateral", join(others, ", "));
  add("full log", cause.log.string());
  add("try", advice(cause));
  return text + "cohort: " + summary_line(cause) + "\n";
}

}  // namespace cohort::launch

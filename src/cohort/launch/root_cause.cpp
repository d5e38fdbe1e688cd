#include "cohort/launch/root_cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <string_view>
#include <utility>

#include "cohort/base/text.h"

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
  return looks_like_a_lost_peer(task) ? text + ", lost its peer" : text;
}

double seconds_of(std::chrono::milliseconds duration) {
  return static_cast<double>(duration.count()) / 1000.0;
}

// What frameworks still print while a process that has failed already comes down.
bool is_teardown_noise(std::string_view line) {
  static constexpr std::string_view kPhrases[] = {
      "terminate called without an active exception",  // PyTorch's threads, now and then
      "] Warning: ",                                   // PyTorch: "[rank0]:[W1115 ... x.cpp:12]"
      ": I tensorflow/",
      ": W tensorflow/",
      ": I external/",
      ": W external/"};
  return std::any_of(std::begin(kPhrases), std::end(kPhrases), [&](std::string_view phrase) {
    return line.find(phrase) != std::string_view::npos;
  });
}

std::string last_words(const TaskRecord& task) {
  std::string noise;
  for (auto line = task.last_lines.rbegin(); line != task.last_lines.rend(); ++line) {
    std::string words(trim(*line));
    if (words.empty()) continue;
    if (!is_teardown_noise(words)) return words;
    if (noise.empty()) noise = words;
  }
  return noise.empty() ? "it printed nothing" : noise;
}

}  // namespace

std::string how_it_ended(const TaskRecord& task) {
  return fmt::format("{} {} after {:.1f} s{}", task.exit->signal ? "was killed by" : "failed with",
                     to_string(*task.exit), seconds_of(task.ran_for),
                     task.memory_evidence.empty() ? "" : ", out of memory");
}

bool looks_like_a_lost_peer(const TaskRecord& task) {
  static constexpr std::string_view kPhrases[] = {"Connection reset by peer",
                                                  "Connection closed by peer",
                                                  "connection closed by peer",
                                                  "Broken pipe",
                                                  "Socket closed",
                                                  "remote process exited",
                                                  "lost its peer",
                                                  "Connection refused",
                                                  "Collective ops is aborted",
                                                  "caused by an exception on one of the ranks"};
  return std::any_of(std::begin(kPhrases), std::end(kPhrases),
                     [&](std::string_view phrase) { return mentions(task, phrase); });
}

const TaskRecord& choose_root_cause(const std::vector<TaskRecord>& failures) {
  auto own_words = std::find_if(failures.begin(), failures.end(), [](const TaskRecord& task) {
    return !looks_like_a_lost_peer(task);
  });
  return own_words != failures.end() ? *own_words : failures.front();
}

std::string summary_line(const TaskRecord& cause) {
  return fmt::format("{} on {} (pid {}) {}: {}", to_string(cause.id), cause.host, cause.pid,
                     how_it_ended(cause), last_words(cause));
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
  add("ended", fmt::format("{} after {:.1f} s", to_string(*cause.exit), seconds_of(cause.ran_for)));
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

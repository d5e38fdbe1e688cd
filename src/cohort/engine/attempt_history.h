#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cohort/engine/attempt_folder.h"

// What the launcher wrote down of an attempt beyond its status: why it failed, what happened when,
// what its tasks use now. All of it is read from the attempt's folder and this machine's /proc, with
// bounded memory; an engine without a launcher (Kubernetes) leaves nothing to read.
namespace cohort::engine {

// The root cause as the launcher reports it.
struct FailureReport {
  std::string task;  // "worker:1"
  std::string host;
  std::string how;                      // "exit code 1", "SIGKILL"
  std::string summary;                  // one line, the whole story
  std::vector<std::string> lines;       // the last that the task printed
  std::vector<std::string> collateral;  // how the other tasks ended: "worker:0: SIGTERM"
  std::string memory;                   // evidence that memory ran out; "": none
  std::string advice;
};
// Nothing where the launcher named no task.
std::optional<FailureReport> read_failure(const AttemptFolder& folder);

struct HistoryEntry {
  std::string time;  // UTC
  std::string kind;  // task_started, task_ended, view, trains, evicted, waiting, over, failed
  std::string task;  // "worker:1"; "": the job
  std::string text;
  bool operator==(const HistoryEntry&) const = default;
};
// In the order of their times: at most kMostHistory entries, the newest.
inline constexpr std::size_t kMostHistory = 5000;
std::vector<HistoryEntry> read_history(const AttemptFolder& folder);

struct TaskUsage {
  int pid = 0;
  std::string started, ended;           // UTC; "": not yet
  std::optional<double> cpu_seconds;    // of the task's processes, where they run on this machine
  std::optional<std::uint64_t> memory;  // resident bytes of the same
  std::optional<std::uint64_t> gpu_memory;  // bytes on this machine's GPUs; nothing: none is used
  std::optional<int> step;                  // that a member of an elastic job has told
};
// By the task's name. Asks a launcher that runs, which takes up to 2 s.
std::map<std::string, TaskUsage> read_usage(const AttemptFolder& folder);

}  // namespace cohort::engine

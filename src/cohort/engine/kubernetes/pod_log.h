#pragma once

#include <atomic>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "cohort/base/unique_fd.h"
#include "cohort/engine/kubernetes/kube_client.h"
#include "cohort/engine/kubernetes/log_position.h"

namespace cohort::engine::kubernetes {

// Copies the log of one pod into a file while the pod runs, so that it outlives the pod: every line
// once, also over streams that break off and over restarts of this process. Beside the file stands
// FILE.position: how many bytes of it count, where the log goes on behind them, and whether it has
// ended; it stays until forget_position().
//
// A pod may be removed before its log was read. Then the last lines that its status has are added,
// as far as they are not in the file; where others may be missing, a line says so.
//
// Threads: one of its own, with one connection, until the log has ended; methods from any thread.
// Failure: a log that cannot be read in kPatience after the pod's end gets a line that says so;
// a file that cannot be written ends the copy with a warning.
class PodLog {
 public:
  static constexpr std::chrono::seconds kPatience{20};

  // `path`: of the log in the API.
  PodLog(const ClusterAccess& access, std::string path, std::filesystem::path file);
  ~PodLog();  // a log that has not ended goes on with the next one of the same file
  PodLog(const PodLog&) = delete;
  PodLog& operator=(const PodLog&) = delete;

  // What is there is all. `last_lines`: see PodStatus; of several calls the first that has some.
  void pod_has_ended(const std::string& last_lines);
  bool is_done() const { return done_.load(); }

  static void forget_position(const std::filesystem::path& file);  // its PodLog is done

 private:
  void run();
  void copy();
  enum class Read { whole, broken, absent };
  Read read_stream();
  void add_missing(Read last_read);
  std::string file_end(std::size_t most_bytes) const;
  void append(std::string_view line, bool with_end);
  void flush(bool is_whole = false);

  HttpCancel cancel_;
  const KubeClient client_;
  const std::string path_;
  const std::filesystem::path file_;
  std::atomic<bool> ended_ = false, done_ = false;
  std::mutex mutex_;
  std::string last_lines_;  // guarded by mutex_
  // Of the thread alone.
  UniqueFd output_;
  std::uint64_t bytes_ = 0;  // of the file that count
  LogPosition position_;
  std::string taken_;         // lines that are not yet in the file
  bool reached_end_ = false;  // the newest stream was closed in order
  std::string last_line_;     // of that stream, as it came, where it has no end
  std::thread thread_;
};

// The part of `last_lines`, the end of a log, that is missing behind `file_end`, whole lines of the
// same log; nothing where the two do not meet.
std::optional<std::string> missing_behind(std::string_view file_end, std::string_view last_lines);

}  // namespace cohort::engine::kubernetes

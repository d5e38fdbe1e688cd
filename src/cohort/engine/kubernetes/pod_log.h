#pragma once

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>

#include "cohort/base/unique_fd.h"
#include "cohort/engine/kubernetes/kube_client.h"
#include "cohort/engine/kubernetes/log_position.h"

namespace cohort::engine::kubernetes {

// Copies the log of one pod into a file while the pod runs, so that it outlives the pod: every line
// once, also over streams that break off and over restarts of this process. Beside the file stands
// FILE.position: how many bytes of it count, and where the log goes on behind them.
//
// Threads: one of its own, with one connection, until the log has ended; methods from any thread.
// Failure: a log that cannot be read in kPatience after the pod's end gets a last line that says so;
// a file that cannot be written ends the copy with a warning.
class PodLog {
 public:
  static constexpr std::chrono::seconds kPatience{20};

  // `path`: of the log in the API.
  PodLog(const ClusterAccess& access, std::string path, std::filesystem::path file);
  ~PodLog();  // a log that has not ended goes on with the next one of the same file
  PodLog(const PodLog&) = delete;
  PodLog& operator=(const PodLog&) = delete;

  void pod_has_ended() { ended_.store(true); }  // what is there is all
  bool is_done() const { return done_.load(); }

 private:
  void run();
  enum class Read { whole, broken, absent };
  Read read_stream();
  void append(std::string_view line, bool with_end);
  void flush();

  HttpCancel cancel_;
  const KubeClient client_;
  const std::string path_;
  const std::filesystem::path file_;
  std::atomic<bool> ended_ = false, done_ = false;
  // Of the thread alone.
  UniqueFd output_;
  std::uint64_t bytes_ = 0;  // of the file that count
  LogPosition position_;
  std::string taken_;  // lines that are not yet in the file
  std::thread thread_;
};

}  // namespace cohort::engine::kubernetes

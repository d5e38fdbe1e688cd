#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include "cohort/base/unique_fd.h"
#include "cohort/engine/kubernetes/attempt_pods.h"
#include "cohort/engine/kubernetes/kubernetes_setup.h"

namespace cohort::engine::kubernetes {

// Looks after one attempt from this process: makes its objects, unless they are there, watches its
// pods, keeps their logs, and writes down what is known (status.json). The attempt does not depend
// on it: another follower, in another process, takes up where this one ended.
//
// The Job is the truth: a watch only says when to look. A watch that ends is opened at its last
// resourceVersion; one that is too old (410 Gone) begins with a new list. As long as the API server
// cannot be asked, the attempt waits, and says for what.
//
// Threads: one of its own, and one for each log; methods from any thread.
// Failure: never throws after the constructor; what cannot be is the attempt's failure.
class AttemptFollower {
 public:
  // `lock`: of the attempt's folder: one follower at a time.
  AttemptFollower(KubernetesSetup setup, std::filesystem::path folder, UniqueFd lock);
  ~AttemptFollower();  // the attempt goes on
  AttemptFollower(const AttemptFollower&) = delete;
  AttemptFollower& operator=(const AttemptFollower&) = delete;

  AttemptStatus status() const;
  bool is_done() const { return done_.load(); }  // the attempt has ended, and its logs are whole

 private:
  void run();
  void follow();
  void wait_after(const std::string& trouble);  // shows it, and waits before the next try
  void until_end(const AttemptObjects& objects, AttemptPods& pods, std::string version);
  bool watch_once(const AttemptObjects& objects, AttemptPods& pods, std::string& version);
  bool take_event(const std::string& line, AttemptPods& pods, std::string& version) const;
  bool look(const AttemptObjects& objects, AttemptPods& pods, std::string& version);
  void finish(const AttemptObjects& objects, AttemptPods& pods, std::string& version,
              AttemptStatus status, int count = 0);
  void see_ends(const AttemptObjects& objects, AttemptPods& pods, std::string& version,
                int count) const;
  void change(const std::function<void(AttemptStatus& status)>& change);
  bool stop_asked() const;

  const KubernetesSetup setup_;
  const std::filesystem::path folder_;
  const UniqueFd lock_;
  HttpCancel cancel_;
  mutable std::mutex mutex_;
  AttemptStatus status_;
  std::atomic<bool> done_ = false;
  // Of the thread alone.
  bool stop_sent_ = false;
  std::chrono::seconds max_run_{0};
  Deadline::Clock::time_point answered_;  // by the API server, when it was asked for the Job
  std::thread thread_;
};

}  // namespace cohort::engine::kubernetes

#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cohort/engine/kubernetes/attempt_objects.h"
#include "cohort/engine/kubernetes/pod_log.h"
#include "cohort/engine/kubernetes/pod_status.h"

namespace cohort::engine::kubernetes {

// The pods of an attempt as they are known, and their logs. A pod that is gone from the cluster
// stays here. Each pod of an index has a log of its own: run/logs/worker-0.attempt1.log, then
// attempt2; run/logs/pods.json says which is whose.
//
// Confined to one thread, but for the threads of the logs. Failure: SystemError where the folder
// cannot be written.
class AttemptPods {
 public:
  // `objects` must outlive it.
  AttemptPods(const ClusterAccess& access, const AttemptObjects& objects, Pods layout,
              const std::filesystem::path& run);

  void set(const PodStatus& pod);                      // as it is now
  void gone(const std::string& uid);                   // it was removed
  void keep_only(const std::vector<PodStatus>& pods);  // a list: others are gone
  void all_have_ended();
  bool logs_done() const;
  // Each index below `count` has had a pod, and all pods that are known have ended or are gone.
  bool all_seen_to_end(int count) const;
  void forget_positions() const;  // of the logs: none is read again

  std::vector<TaskStatus> tasks() const;  // the newest pod of each index
  int running() const;                    // workers
  bool any_started() const;
  std::string waits_for() const;  // the first sentence that a pod has; "": none

  // The pod that failed first, as the launcher finds it among tasks (launch/ending/root_cause.h),
  // with its last words: "worker/1 on node7 ended with exit code 3 after 2.0 s: no data". Nothing
  // when none failed.
  struct Cause {
    std::string text;
    std::optional<int> exit_code;
  };
  std::optional<Cause> root_cause() const;

 private:
  struct Known {
    PodStatus pod;
    int number = 1;  // among the pods of its index
    std::unique_ptr<PodLog> log;
    bool is_gone = false;
  };
  Known& known(const PodStatus& pod);
  std::filesystem::path log_file(int index, int number) const;
  void write_names() const;
  const Known* newest(int index) const;

  const ClusterAccess access_;
  const AttemptObjects& objects_;
  const Pods layout_;
  const std::filesystem::path logs_;
  std::map<std::string, std::pair<int, int>> names_;  // uid: index and number
  std::map<std::string, Known> pods_;                 // by uid
};

}  // namespace cohort::engine::kubernetes

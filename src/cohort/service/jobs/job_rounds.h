#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "cohort/service/jobs/folder_watch.h"
#include "cohort/service/jobs/live_job.h"
#include "cohort/service/jobs/manager_options.h"
#include "cohort/service/queue/queue.h"

namespace cohort::service {

// The work of the job manager's thread (job_manager.h says what it is): all that is in memory, and
// what is done with it. Made from run store and engines, and thrown away after any error.
// Confined to one thread.
class JobRounds {
 public:
  JobRounds(const ManagerOptions& options, const Engines& engines, const Instant& now);

  // One round; `woken`: jobs that changed in the store. Returns when the next one is due.
  std::int64_t round(const std::set<std::string>& woken, const Instant& now);

  int watch_fd() const { return watch_.fd(); }
  jobspec::Size free() const { return queue_.free(); }
  std::vector<std::string> line(int count) const { return queue_.line(count, now_.steady); }
  std::size_t unfinished() const { return live_.size(); }

 private:
  void remember_shares();
  void look_again(const std::string& id);
  void adopt(const JobRow& row);
  void forget(const std::string& id);

  void begin(LiveJob& live, const std::vector<Placed>& placement);
  void submit(LiveJob& live);
  void observe(LiveJob& live);
  void note_running(LiveJob& live, const engine::AttemptStatus& status);
  void note_waiting(LiveJob& live, const std::string& waiting);
  void end_attempt(LiveJob& live, const engine::AttemptStatus& status);
  void end_job(LiveJob& live, JobState state, const std::string& reason);
  void stop_if_due(LiveJob& live);
  void scale(LiveJob& live, const engine::AttemptStatus& status);
  void take_wanted_workers(LiveJob& live);
  void carry_out(const Decision& decision);
  void write_reasons();

  // False: the store has another state; the job is looked at again in the next round.
  bool write(LiveJob& live, JobState expected, std::string_view kind, const std::string& data);
  void about_to_change() const {
    if (options_.before_change) options_.before_change();
  }
  std::filesystem::path folder(const LiveJob& live) const {
    return options_.folders.attempt(live.row.id, live.row.attempt);
  }

  const ManagerOptions& options_;
  const Engines& engines_;
  Instant now_;
  RunStore store_;
  Queue queue_;
  FolderWatch watch_;
  std::map<std::string, LiveJob> live_;
  std::set<std::string> active_;   // those that have an attempt
  std::set<std::string> at_once_;  // those that wait for no queue
  std::set<std::string> again_;    // to be looked at again
  std::int64_t next_poll_ = 0;
};

}  // namespace cohort::service

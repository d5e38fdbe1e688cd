#pragma once

#include <map>
#include <optional>

#include "cohort/launch/ending/outcome.h"
#include "cohort/launch/supervise/job_policy.h"
#include "cohort/launch/supervise/restart_policy.h"

namespace cohort::launch {

// A job with a fixed number of tasks: all of them start, a killed one that asked for it is started
// again alone, and the Outcome of their ends is that of the job.
class FixedJob : public JobPolicy {
 public:
  explicit FixedJob(JobContext context);

  bool prepare() override { return true; }
  void begin_attempt() override;
  void start() override;
  void on_exit(TaskProcess& task) override;
  bool is_start_due() const override { return !later_starts_.empty(); }
  void stop() override;
  void end_attempt() override { stop(); }
  void drop_attempt() override { stop(); }
  bool may_restart() const override { return true; }
  std::string scale(int workers) override;
  void describe(JobRecord&, bool) const override {}

 private:
  bool start_again(TaskProcess& task);
  bool start_now_or_later(TaskProcess& task, int tries);
  void judge(const TaskProcess& task);
  void remind_of_awaited(std::chrono::milliseconds delay);

  JobContext context_;
  std::optional<Outcome> outcome_;         // of the attempt
  std::optional<RestartPolicy> restarts_;  // of its tasks
  // Tasks that the system had no descriptor or process for.
  std::map<cluster::TaskId, EventLoop::TimerId> later_starts_;
  EventLoop::TimerId reminder_ = 0;
};

}  // namespace cohort::launch

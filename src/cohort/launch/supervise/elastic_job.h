#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/launch/plan/job_hosts.h"
#include "cohort/launch/record/elastic_record.h"
#include "cohort/launch/supervise/job_policy.h"
#include "cohort/launch/supervise/worker_slots.h"
#include "cohort/membership/protocol/coordinator.h"

namespace cohort::launch {

// An elastic job: hosts the coordinator, tells it of every death at once, keeps the list of hosts,
// and does what WorkerSlots decides.
//
// The coordinator has a thread of its own and speaks through the loop.
class ElasticJob : public JobPolicy {
 public:
  explicit ElasticJob(JobContext context);
  ~ElasticJob() override;

  bool prepare() override;
  void begin_attempt() override;
  void start() override;
  void before_check() override;
  void on_exit(TaskProcess& task) override;
  bool is_start_due() const override { return true; }  // until the attempt is decided
  void stop() override;
  void end_attempt() override;
  void drop_attempt() override;
  bool may_restart() const override;
  std::string scale(int workers) override;
  void describe(JobRecord& record, bool live) const override;
  std::set<pid_t> processes() const override;

 private:
  struct Attempt;

  void on_event(const membership::MembershipEvent& event);
  void on_installed(const membership::View& view);
  void on_resumed(const membership::MembershipEvent& event);
  void on_hosts(int slots, const std::vector<cluster::TaskId>& without_slot);
  void tell_death(const TaskProcess& task, const ExitStatus& exit);
  // Learns whether training is over, which ends may precede.
  void look_at_coordinator();
  // Does what the slots decided; `first`: an error of a start is the job's.
  void carry_out(bool first = false);
  void start(TaskProcess& task, bool first);
  bool start_on_host(TaskProcess& task);

  JobContext context_;
  const ElasticOptions options_;
  std::unique_ptr<JobHosts> hosts_;  // of a job that names some
  std::optional<int> wanted_;        // what an earlier attempt was scaled to
  std::string failure_;              // of the job, a sentence; "" while there is none
  std::unique_ptr<Attempt> attempt_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // events of a past attempt miss theirs
};

}  // namespace cohort::launch

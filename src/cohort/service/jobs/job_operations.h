#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/jobspec/resolved_job.h"
#include "cohort/service/store/run_store.h"

namespace cohort::service {

// What people do with jobs, whichever way they ask (the HTTP API, at present). Each call is one
// transaction of the run store; the job manager, woken, carries it out. Rights are the caller's
// business: these functions know no users but a job's owner.
//
// Threads: confined to one but for check(), with a RunStore of its own.
// Failure: InvalidInput with a sentence for the person; nothing has changed then.
class JobOperations {
 public:
  // Checks and resolves a description as the engine that it names will (docs/platform.md).
  using Resolve = std::function<jobspec::ResolvedJob(const jobspec::JobSpec&)>;
  // Tells the job manager (JobManager::wake) that this job has changed.
  using Wake = std::function<void(std::string_view id)>;

  JobOperations(RunFolders folders, Resolve resolve, Wake wake);
  ~JobOperations();

  // Asks programs and disks; from any thread.
  jobspec::ResolvedJob check(const jobspec::JobSpec& spec) const;
  // The job that this user submitted with this `request_id` (of the client; "": none).
  std::optional<JobRow> submitted(std::string_view user, std::string_view request_id) const;
  // Accepted and on disk when it returns; the same `request_id` gives the same job again.
  JobRow submit(const jobspec::ResolvedJob& job, std::string_view user,
                std::string_view request_id);
  JobRow stop(std::string_view id);                // queued: ended at once
  JobRow resume(std::string_view id);              // ended and not succeeded: queued again
  JobRow scale(std::string_view id, int workers);  // elastic and running
  JobRow pin(std::string_view id, bool pinned);
  // Ended ones. Their folder has another name then, which is returned: remove_tree() of it may take
  // long. Empty: another caller removed it meanwhile.
  std::filesystem::path remove(std::string_view id);

  RunStore& store();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::service

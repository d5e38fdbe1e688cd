#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cohort/base/deadline.h"
#include "cohort/collective/world.h"
#include "cohort/parallel/strategies/server_flags.h"
#include "cohort/ps/client/client.h"

namespace cohort::parallel {

// The parameter servers of a job, as a worker's replica sees them: what was asked for, the way
// there, and the store in which workers leave notes for each other.
//
// Threads: confined to the replica's thread. Ownership: keeps the session. Failure: what
// ps::Client and the store throw.
class Servers {
 public:
  // `client.servers` are all of them; none: a dry run for flags.num_ps.
  Servers(std::shared_ptr<collective::World> world, ServerFlags flags, ps::ClientOptions client);

  const ServerFlags& flags() const { return flags_; }
  int count() const;
  int worker() const { return options_.worker; }
  int workers() const { return options_.workers; }
  bool is_chief() const { return options_.chief; }
  std::string output() const;  // the job's folder, or empty

  // The caller's model is the one that the servers hold. InvalidInput at the second call: servers
  // hold one model a job.
  void claim();

  // Connected at the first call.
  ps::Client& client(Deadline deadline);

  // A text under a name of this job; find_note() does not wait for one, read_note() does.
  void leave_note(const std::string& name, const std::string& text, Deadline deadline);
  std::optional<std::string> find_note(const std::string& name, Deadline deadline);
  std::string read_note(const std::string& name, Deadline deadline);
  // Counts the callers of this name, each worker once; returns when all workers have called. False:
  // not at the deadline.
  bool wait_for_all(const std::string& name, Deadline deadline);

  // This worker needs the servers no more.
  void leave(Deadline deadline);

 private:
  std::shared_ptr<collective::World> world_;
  ServerFlags flags_;
  ps::ClientOptions options_;
  std::unique_ptr<ps::Client> client_;
  bool claimed_ = false;
};

}  // namespace cohort::parallel

#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/base/crypto/secret.h"
#include "cohort/base/deadline.h"
#include "cohort/base/error.h"
#include "cohort/cluster/role.h"
#include "cohort/cluster/session/meeting.h"
#include "cohort/cluster/store/store_client.h"
#include "cohort/cluster/store/store_server.h"

namespace cohort::cluster {

struct SessionOptions {
  std::chrono::milliseconds timeout = std::chrono::minutes(5);  // for the store to appear
  std::optional<Secret> secret;
  bool insecure = false;  // accept a store that others on the network can reach, without a secret
  // Where tasks meet that know their ranks only (meeting.h): COHORT_MEET and XDG_RUNTIME_DIR.
  std::string meeting_folder, runtime_folder;
  // HOME: where tasks meet that Slurm starts on several nodes, in the folder .cache/cohort.
  std::string home_folder = {};

  // COHORT_SECRET_FD, COHORT_SECRET_FILE, COHORT_INSECURE, COHORT_MEET, XDG_RUNTIME_DIR, HOME.
  // Throws InvalidInput.
  static SessionOptions from(const Environment& environment);
};

// What a task that serves learns of one that trains.
enum class TaskEvent {
  lost,      // it went without a word, and may come back
  returned,  // it was lost, and has joined again
  done,      // it said so
  gone       // it was lost for longer than one has patience
};
using TaskEventHandler = std::function<void(const TaskId& task, TaskEvent event)>;

// One task's membership of its job: the store, a barrier, and the job's orderly end.
//
// Where the store is: at role.store; else, in a cluster of several tasks that a person started by
// hand with TF_CONFIG, hosted by the chief on its own address; else, for tasks that know their
// ranks only (mpirun, srun, torchrun), hosted by rank 0: on one host, or with a COHORT_MEET that
// all hosts share, the others find it by a note (meeting.h), and the job gets a secret if it has
// none; across hosts at the port after role.master's, and of srun, whose nodes share home folders,
// by a note in that of the user. Alone there is none, and every call returns
// at once. Tasks must agree on who takes part; one that waits for the host of the store says so.
//
// How a job ends: every training task says done(); a parameter server or evaluator leaves
// serve_until_done() when all have. A task that goes without a word is noticed by the others.
//
// Threads: store() is thread-safe, the rest thread-compatible.
// Failure: InvalidInput (no secret on a network; a role that tells no meeting place; another
// cluster than the rest of the job), AuthError, TimeoutError, PeerError.
class Session {
 public:
  // Blocks until the store answers, at most options.timeout. Does not wait for the other tasks:
  // that is what barrier() is for. In a job, standard output is from here on written line by line
  // (line_output.h); a task that is alone keeps what it has.
  static std::unique_ptr<Session> join(const Role& role, SessionOptions options);
  ~Session();  // leaves at once; without done() before, the others read that this task was lost
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Role& role() const { return role_; }
  bool is_alone() const { return client_ == nullptr; }
  bool hosts_store() const { return server_ != nullptr; }
  // The job's: the one that was given, or that the tasks of a job without one have made.
  const std::optional<Secret>& secret() const { return secret_; }
  StoreClient& store();  // not for a task that is alone

  // `name` within this job and attempt: "JOB/1/name". All keys in the store should come from here.
  std::string key(std::string_view name) const;

  // Of all training tasks. The error names who is missing.
  void barrier(const std::string& name, Deadline deadline);

  // This task's part is finished. May be called again.
  void done(Deadline deadline);

  // For tasks that serve: returns when every training task is done. PeerError, with its name, when
  // one left without.
  void serve_until_done(Deadline deadline);

  // For servers that outlast the loss of others: as above, but a task that left without a word is
  // waited for. Each event is told from this thread. Returns when every training task is done or
  // gone; the result are those gone. A task that returns after it was taken for gone is awaited
  // again, unless this call has returned.
  // What `on_event` throws ends the call. From another thread, store().close() does (PeerError).
  std::vector<TaskId> serve_through_losses(std::chrono::milliseconds patience,
                                           const TaskEventHandler& on_event, Deadline deadline);

  // Leaves. The task that hosts the store stays, once it is done() itself, until the others have
  // left too or the deadline passed; it then warns and names those that still need the store.
  void close(Deadline deadline);

 private:
  explicit Session(const Role& role);
  void host_store(const Address& mine, const SessionOptions& options);
  void meet(const SessionOptions& options);
  void host_meeting(const std::filesystem::path& folder, SessionOptions options);
  void find_meeting(const std::filesystem::path& folder, SessionOptions options);
  std::string meeting_id() const;
  void connect(const Address& store, const SessionOptions& options);
  std::unique_ptr<StoreClient> connect_quickly(const StoreClientOptions& target) const;
  void agree_on_tasks(Deadline deadline);
  std::string name_of(const TaskId& task) const;
  std::string end_key(const std::string& name) const;
  void announce(Deadline deadline);
  [[noreturn]] void raise_lost_in_barrier(const PeerError& error, const std::string& barrier) const;
  void require_service() const;
  std::map<std::string, TaskId> awaited_ends() const;
  void leave_quietly(Deadline deadline);
  void wait_for_others(Deadline deadline);

  Role role_;
  std::string name_;                   // ours
  std::vector<std::string> trainers_;  // the training tasks, in rank order
  std::vector<TaskId> awaited_;        // whose done() ends the job: trainers_ and a coordinator
  std::string store_host_;             // the task that hosts the store, where none was given
  std::optional<Secret> secret_;
  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<MeetingNote> note_;
  std::unique_ptr<StoreClient> client_;
  bool is_done_ = false;
};

}  // namespace cohort::cluster

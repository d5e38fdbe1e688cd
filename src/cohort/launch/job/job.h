#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cohort/cluster/task.h"
#include "cohort/launch/job/hosts.h"
#include "cohort/launch/remote/remote_shell.h"

// The job model: what a person asks for. Everything else in `launch` is derived from it.
namespace cohort::launch {

enum class ChiefName { none, chief, master };
enum class Layout { separate, colocated };
enum class SuccessPolicy { chief, worker0, all_workers };
enum class ProxyMode { bypass, strip, keep };

// What `cohort run --elastic` adds: workers come and go while the job trains.
struct ElasticOptions {
  int least = 1;  // fewer do not train
  int most = 1;   // places for workers; JobOptions::workers is the same number
  std::chrono::milliseconds lease{2000};
  std::chrono::milliseconds timeout{600'000};  // with fewer than `least`; then the job has failed
  int task_restarts = 10;                      // of each task alone (restart_policy.h)
  std::optional<int> first;                    // workers to begin with; nothing: most
  std::filesystem::path discovery_script;      // empty: the hosts are as JobOptions names them

  bool operator==(const ElasticOptions&) const = default;
};

// How tasks on other hosts are started, and how they reach this one.
struct RemoteOptions {
  std::string shell = kDefaultRemoteShell;  // remote_shell.h
  std::string cohort;                       // where `cohort` lies there; empty: where it lies here
  std::string address;  // this machine as others see it; empty: as it reaches the first of them

  bool operator==(const RemoteOptions&) const = default;
};

struct JobOptions {
  std::vector<std::string> command;  // program and arguments

  int workers = 1;
  int ps = 0;
  bool evaluator = false;
  ChiefName chief_name = ChiefName::none;  // none: worker/0 is the chief
  bool coordinator = false;                // a chief beside the workers that does not train
  Layout layout = Layout::separate;
  std::string strategy;

  std::filesystem::path output;  // empty: cohort-output/<job id>
  int keep = 20;                 // the newest runs there, beside those of the last days; 0: all
  std::optional<SuccessPolicy> success;
  std::chrono::milliseconds grace{5000};
  std::chrono::milliseconds max_run{0};  // then the job has failed; 0: no limit
  int max_restarts = 0;                  // of the whole group
  int task_restarts = 3;                 // of one task alone (restart_policy.h)

  std::map<std::string, std::string> environment;
  bool scheduler_args = false;
  std::optional<int> gpus_per_worker;
  std::optional<int> threads_per_task;
  ProxyMode proxy = ProxyMode::bypass;
  std::vector<Host> hosts;            // empty: this machine
  std::optional<int> slots_per_host;  // of hosts that name none
  RemoteOptions remote;
  bool horovod = false;  // serve the key-value store through which ranks of Horovod meet

  std::vector<std::string> show;  // "worker:0", "ps"; empty: everything
  bool quiet = false;

  std::optional<ElasticOptions> elastic;
  std::string id;  // of the job; empty: a new one. The caller sees to it that no two run at once
  // `output` is the folder of a job whose launcher is gone: go on with that job, in that folder.
  bool resume = false;

  bool operator==(const JobOptions&) const = default;

  // The policy in force: as asked, else chief with a coordinator, else all workers.
  SuccessPolicy success_policy() const;
};

// Settles what follows from other choices (colocated: one ps a worker, a chief by name) and refuses
// what cannot work. Throws InvalidInput that names the value and the fix.
void settle(JobOptions& options);

// The file that would be run for `program`: the path itself, or the first match in `path_variable`
// (the value of PATH). Throws InvalidInput when it does not exist or cannot be executed.
std::filesystem::path find_program(const std::string& program, const std::string& path_variable);

// True when tasks may run on other hosts than this one.
bool has_other_hosts(const JobOptions& options);

// Parameter servers and evaluators serve the tasks that train: they never gate the job's end.
bool is_service(cluster::TaskType type);

// The tasks whose exit with 0 makes the job a success.
std::vector<cluster::TaskId> gating_tasks(const std::vector<cluster::TaskId>& tasks,
                                          SuccessPolicy policy);

}  // namespace cohort::launch

#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/processes.h"
#include "cohort/base/crypto/secret.h"
#include "cohort/ps/client/client.h"
#include "cohort/ps/model/policy.h"

namespace cohort::bench {

constexpr const char* kProgram = "ps_bench";

struct JobOptions {
  int workers = 1;
  int servers = 1;
  bool shared_memory = true;
  ps::Durability durability = ps::Durability::none;
};

// Parameter servers, a process each, and processes that are their workers. Confined to one thread,
// the only one of its process.
class Job {
 public:
  // Returns when all servers listen.
  explicit Job(JobOptions options);
  // Ends what finish() did not.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // A process that is worker `worker`, connected. Throws in that process only.
  void start_worker(int worker, const std::function<void(ps::Client&)>& body);
  // Waits for the workers, tells the servers that the job is over, waits for them. Throws Error
  // when a process failed.
  void finish();

  pid_t server(int index) const { return servers_[static_cast<std::size_t>(index)]; }

 private:
  void serve(int index, Pipe& ready);
  ps::ClientOptions client_options(int worker) const;

  JobOptions options_;
  Secret secret_;
  std::string id_;
  std::vector<cluster::Address> addresses_;
  std::vector<UniqueFd> memory_;  // what the launcher would hold
  std::filesystem::path folder_;
  Pipe end_;
  std::vector<pid_t> servers_, workers_;
};

inline Deadline soon() { return Deadline::after(std::chrono::minutes(1)); }
// Seconds on the clock that all processes share.
double now();
// Seconds that a process has spent on processors.
double cpu_seconds(pid_t process);
// Of a file of /proc/PID: the number behind `name`, in KiB.
std::uint64_t memory_kib(pid_t process, const char* file, const std::string& name);

}  // namespace cohort::bench

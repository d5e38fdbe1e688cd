#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/crypto/secret.h"
#include "cohort/base/deadline.h"
#include "cohort/base/unique_fd.h"
#include "cohort/cluster/address.h"
#include "cohort/ps/model/policy.h"

namespace cohort::ps {

struct ServerOptions {
  int server = 0;
  std::vector<cluster::Address> servers;  // of all; ours is where others reach us
  std::string bind_host = "127.0.0.1";    // "": every interface
  std::string job;                        // id, the same for all tasks
  std::optional<Secret> secret;
  bool insecure = false;  // accept to be reachable from the network without a secret
  bool tls = false;

  Durability durability = Durability::none;
  UniqueFd memory;  // process: the file that the launcher keeps; invalid: a private one
  std::filesystem::path folder;  // disk
  std::uint64_t memory_limit = 0;
  // How long a worker that is gone is waited for before training goes on, or fails, without it.
  std::chrono::milliseconds worker_timeout = std::chrono::minutes(1);
};

// One parameter server: listens at its address (and, for workers on this host, on a Unix socket in
// the abstract namespace, local_name()), recovers what its durability kept, and serves workers
// until it is told that the job is over.
//
// Threads: one, which calls run(); finish() and fail() from any. Sockets, updates and policy are
// all on run()'s thread: more servers use more cores.
// Failure: the constructor throws InvalidInput, SystemError (cannot listen), and what recovery
// throws. run() throws what fail() was given, and Error when it cannot go on. A worker that breaks
// the protocol is refused, told why, and logged; the others do not notice. Memory is bounded by the
// model, the number of workers and memory_limit.
class Server {
 public:
  explicit Server(ServerOptions options);
  ~Server();

  const cluster::Address& address() const;  // the real port
  bool recovered() const;                   // it began with a model

  // Returns when finish() was called and every answer is written, or a second has passed.
  void run();
  void finish();
  void fail(std::exception_ptr error);  // run() throws it

  // Of the Unix socket; random. Workers ask for it over TCP. Empty: there is none.
  const std::string& local_name() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort::ps

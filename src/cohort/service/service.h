#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/net/http_server.h"
#include "cohort/engine/kubernetes/kubernetes_setup.h"
#include "cohort/jobspec/spec_json.h"
#include "cohort/service/store/retention.h"
#include "cohort/service/store/run_store.h"

namespace cohort::service {

struct ServiceOptions {
  RunFolders folders;
  std::optional<Endpoint> listen;        // beside the Unix socket
  std::optional<HttpListener::Tls> tls;  // required where `listen` is not loopback
  bool on_demand = false;                // ends when it is not needed
  std::chrono::seconds idle{600};        // on demand: without unfinished jobs and requests
  // What jobs may hold together; all that this machine has unless given.
  std::optional<double> cores;
  std::optional<std::uint64_t> memory_bytes;
  std::optional<int> gpus;
  RetentionPolicy retention;            // applied every hour
  std::filesystem::path page_folder;    // the page's files, instead of the program's own; "": those
  jobspec::KnownOptions known;          // options of `cohort run` that descriptions may have
  std::vector<std::string> host_words;  // of the engine "hosts" (engine/hosts_engine.h)
  engine::kubernetes::KubernetesSetup kubernetes;
};

// `cohort serve`: the whole service of one root folder, in this process. Jobs outlive it.
//
// Threads: the constructor blocks TERM, INT and HUP in the calling thread, which is to call run(),
// and so in the service's own: HTTP server, job manager, metrics collector.
// Failure: the constructor throws InvalidInput (a folder that is not this user's own, another
// service that works with it, a damaged run store, an address that may not be listened on) or
// SystemError; nothing is left then.
class Service {
 public:
  explicit Service(ServiceOptions options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  std::filesystem::path socket() const;
  std::string listens_at() const;                            // "https://host:port"; "": nowhere
  std::optional<std::filesystem::path> admin_token() const;  // its file, where it listens on TCP

  // Serves until TERM or INT comes, or, on demand, until it is no longer needed. Says why it ended.
  std::string run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::service

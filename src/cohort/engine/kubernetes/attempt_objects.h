#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "cohort/engine/kubernetes/kube_client.h"
#include "cohort/engine/kubernetes/manifest.h"

// The objects of an attempt in the cluster: made once, found again, removed.
namespace cohort::engine::kubernetes {

// What an attempt is called in the cluster, and its secret. Chosen once, by whichever process comes
// first, and kept in the attempt's folder (kubernetes.json, 0600): the same attempt always asks for
// the same Job, so the API server sees to it that there is one.
struct AttemptName {
  std::string name;
  std::string secret;  // 64 hexadecimal digits
};
AttemptName attempt_name(const AttemptRequest& request);                             // chooses it
std::optional<AttemptName> known_attempt_name(const std::filesystem::path& folder);  // nothing yet

// The engine's view of one Job, by its name.
// Threads: as KubeClient. Failure: as KubeClient; InvalidInput where the server refuses for good.
class AttemptObjects {
 public:
  AttemptObjects(const KubeClient& client, std::string name_space, std::string name)
      : client_(client), name_space_(std::move(name_space)), name_(std::move(name)) {}

  // Makes Job, Secret and Service; the last two go with the Job. What is there already is this
  // attempt's own, or InvalidInput. Returns the Job's uid.
  std::string create(const Manifest& manifest, Deadline deadline) const;

  std::optional<nlohmann::json> job(Deadline deadline) const;  // nothing: it is gone
  nlohmann::json pods(Deadline deadline) const;                // a list, with its resourceVersion
  HttpReplyReader watch_pods(const std::string& resource_version, Deadline deadline) const;
  std::string log_path(const std::string& pod) const;
  // Why the newest event says that no pod comes up: "FailedCreate: exceeded quota"; "": none does.
  std::string trouble(Deadline deadline) const;

  void scale(int pods, Deadline deadline) const;  // completions and parallelism in one change
  void remove(Deadline deadline) const;           // TERM to its pods; what is gone is left alone

 private:
  std::string jobs() const;
  std::string core(const char* kind) const;
  std::string selected() const;
  void create_beside(const char* kind, Json object, const Json& owner, Deadline deadline) const;

  const KubeClient& client_;
  std::string name_space_, name_;
};

}  // namespace cohort::engine::kubernetes

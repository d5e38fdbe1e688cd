#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cohort/engine/attempt_folder.h"
#include "cohort/engine/kubernetes/options.h"
#include "cohort/engine/kubernetes/pods.h"

// The objects of one attempt, as Kubernetes takes them. Pure functions.
namespace cohort::engine::kubernetes {

using Json = nlohmann::ordered_json;

// Of every object and pod: kLabel = the Job's name. The Job also says which attempt it is.
inline constexpr const char* kLabel = "cohort/job";
inline constexpr const char* kAttemptAnnotation = "cohort/attempt";
inline constexpr const char* kSecretFolder = "/etc/cohort";
inline constexpr const char* kOutputFolder = "/data/output";
inline constexpr const char* kLastWordFile = "/dev/termination-log";
inline constexpr const char* kContainer = "task";
// What a Secret may hold is 1 MiB; the rest is for the request.
inline constexpr std::size_t kMostSourceBytes = 900 * 1024;

struct ManifestInput {
  AttemptRequest request;
  launch::JobOptions asked;  // what the request's run_words say, settled
  std::string name;          // of all objects (job_name())
  std::string secret;        // the job's, 64 hexadecimal digits
  std::string source;        // the bytes of its packed source; "": none
};

// "cohort-train-4f2a91c07b": a DNS label of `job` and `mark`, which leaves room for a pod's index.
std::string job_name(std::string_view job, std::string_view mark);

struct Manifest {
  Json job, service, secret;
  int pods = 1;
};

// Throws InvalidInput for what cannot run there: no image, MPI, a source that is too large.
Manifest make_manifest(const ManifestInput& input, const PodOptions& options);

// The same as one JobSet (jobset.sigs.k8s.io), which has its own Service; for --print.
Json as_job_set(const Manifest& manifest);

// ServiceAccount, Role and RoleBinding of `cohort serve`: the rights that the engine uses, in one
// namespace, and no others.
std::vector<Json> service_account(const std::string& name_space);

// Documents for `kubectl apply -f -`: JSON, which is YAML, with --- between them.
std::string as_stream(const std::vector<Json>& documents);

}  // namespace cohort::engine::kubernetes

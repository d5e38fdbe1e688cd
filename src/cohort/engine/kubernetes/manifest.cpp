#include "cohort/engine/kubernetes/manifest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cmath>

#include "cohort/base/error.h"
#include "cohort/engine/kubernetes/pod_task.h"

namespace cohort::engine::kubernetes {
namespace {

constexpr std::size_t kMostNamePart = 30;
constexpr std::size_t kMostSecretBytes = 1000 * 1024;
constexpr int kKeptSeconds = 86400;  // for people who look; the service has the logs
constexpr int kBadInputCode = 2;     // what InvalidInput ends with: another try changes nothing

std::string base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int size = ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

Json metadata(const ManifestInput& input, const PodOptions& options) {
  Json data{{"name", input.name}, {"labels", {{kLabel, input.name}}}};
  if (!options.name_space.empty()) data["namespace"] = options.name_space;
  return data;
}

std::string image_of(const jobspec::ResolvedJob& job, const PodOptions& options) {
  const bool own = job.runtime.kind == jobspec::RuntimeEnvironment::Kind::image;
  const std::string image = own ? job.runtime.place : options.image;
  if (image.empty())
    throw InvalidInput("engine \"kubernetes\" needs an image, and the job names none",
                       {.advice = "Give image = \"NAME\" with cohort and the program in it, or "
                                  "start the service with --kubernetes-image NAME."});
  return image;
}

std::string cores_text(double cores) {
  const auto milli = static_cast<long>(std::ceil(cores * 1000));
  return milli % 1000 == 0 ? std::to_string(milli / 1000) : fmt::format("{}m", milli);
}

Json resources(const jobspec::Size& size) {
  Json requests{{"cpu", cores_text(size.cores)}}, limits = Json::object();
  if (size.memory_bytes > 0)
    requests["memory"] = limits["memory"] = std::to_string(size.memory_bytes);
  if (size.gpus > 0) limits["nvidia.com/gpu"] = std::to_string(size.gpus);
  Json result{{"requests", requests}};
  if (!limits.empty()) result["limits"] = limits;
  return result;
}

// All attempts of a job see the same results.
std::string job_of_attempt(const std::string& id) { return id.substr(0, id.rfind('.')); }

void add_volumes(const ManifestInput& input, const PodOptions& options, Json& volumes,
                 Json& mounts) {
  volumes.push_back({{"name", "cohort"}, {"secret", {{"secretName", input.name}}}});
  mounts.push_back({{"name", "cohort"}, {"mountPath", kSecretFolder}, {"readOnly", true}});
  Json output{{"name", "output"}, {"mountPath", kOutputFolder}};
  if (options.output_claim.empty()) {
    volumes.push_back({{"name", "output"}, {"emptyDir", Json::object()}});
  } else {
    volumes.push_back(
        {{"name", "output"}, {"persistentVolumeClaim", {{"claimName", options.output_claim}}}});
    output["subPath"] = job_of_attempt(input.request.id);
  }
  mounts.push_back(output);
  for (const ClaimVolume& volume : options.volumes) {
    const std::string name = fmt::format("data-{}", volumes.size() - 2);
    Json claim{{"claimName", volume.claim}};
    Json mount{{"name", name}, {"mountPath", volume.path}};
    if (volume.read_only) claim["readOnly"] = mount["readOnly"] = true;
    volumes.push_back({{"name", name}, {"persistentVolumeClaim", claim}});
    mounts.push_back(mount);
  }
  volumes.push_back({{"name", "shm"}, {"emptyDir", {{"medium", "Memory"}}}});
  mounts.push_back({{"name", "shm"}, {"mountPath", "/dev/shm"}});  // 64 MiB else
}

Json pod_spec(const ManifestInput& input, const PodOptions& options) {
  const jobspec::ResolvedJob& job = input.request.job;
  Json volumes = Json::array(), mounts = Json::array();
  add_volumes(input, options, volumes, mounts);
  const Json failures{
      {"fieldRef",
       {{"fieldPath", "metadata.annotations['batch.kubernetes.io/job-index-failure-count']"}}}};
  const Json container{{"name", kContainer},
                       {"image", image_of(job, options)},
                       {"command", Json::array({options.cohort, "pod-task", "--job", input.name,
                                                "--last-word", kLastWordFile, kSecretFolder})},
                       {"env", {{{"name", kFailuresVariable}, {"valueFrom", failures}}}},
                       {"ports", {{{"containerPort", kTaskPort}, {"name", "task"}}}},
                       {"resources", resources(job.instance)},
                       {"terminationMessagePath", kLastWordFile},
                       {"terminationMessagePolicy", "FallbackToLogsOnError"},
                       {"volumeMounts", mounts}};
  const auto grace = std::chrono::ceil<std::chrono::seconds>(input.asked.grace).count();
  Json spec{{"restartPolicy", "Never"},
            {"subdomain", input.name},
            {"automountServiceAccountToken", false},
            {"enableServiceLinks", false},
            {"terminationGracePeriodSeconds", std::max<long>(1, grace)},
            {"containers", {container}},
            {"volumes", volumes}};
  if (!options.pull_secret.empty()) spec["imagePullSecrets"] = {{{"name", options.pull_secret}}};
  if (!options.node_selector.empty()) spec["nodeSelector"] = options.node_selector;
  return spec;
}

Json failure_policy() {
  return {{"rules",
           {{{"action", "FailJob"},
             {"onExitCodes",
              {{"containerName", kContainer}, {"operator", "In"}, {"values", {kBadInputCode}}}}},
            {{"action", "Ignore"},
             {"onPodConditions", {{{"type", "DisruptionTarget"}, {"status", "True"}}}}}}}};
}

Json job_spec(const ManifestInput& input, const PodOptions& options, const Pods& pods) {
  // An elastic job begins with what it was given; the coordinator's pod comes on top.
  int count = pods.count();
  if (input.asked.elastic)
    count = 1 + std::clamp(input.request.instances, input.asked.elastic->least,
                           input.asked.elastic->most);
  const int restarts =
      input.asked.elastic ? input.asked.elastic->task_restarts : input.asked.max_restarts;
  Json spec{{"completionMode", "Indexed"},
            {"completions", count},
            {"parallelism", count},
            {"backoffLimitPerIndex", restarts},
            {"podReplacementPolicy", "Failed"},
            {"ttlSecondsAfterFinished", kKeptSeconds},
            {"podFailurePolicy", failure_policy()}};
  // One task that failed for good ends a job of fixed size; an elastic one goes on without it.
  if (!input.asked.elastic) spec["maxFailedIndexes"] = 0;
  if (pods.gating < count || input.asked.elastic) {
    const std::string indexes = pods.gating == 1 ? "0" : fmt::format("0-{}", pods.gating - 1);
    spec["successPolicy"] = {{"rules", {{{"succeededIndexes", indexes}}}}};
  }
  if (const auto limit = input.request.job.spec.max_run; limit.count() > 0)
    spec["activeDeadlineSeconds"] = limit.count();
  spec["template"] = {{"metadata", {{"labels", {{kLabel, input.name}}}}},
                      {"spec", pod_spec(input, options)}};
  return spec;
}

// As the pods see it: their own folders, and no descriptors of this machine.
AttemptRequest as_in_pods(AttemptRequest request) {
  request.output = kOutputFolder;
  request.model = std::string(kOutputFolder) + "/model";
  request.source.clear();
  request.gpu_indices.clear();
  return request;
}

Json secret_data(const ManifestInput& input) {
  if (input.source.size() > kMostSourceBytes)
    throw InvalidInput(fmt::format("the packed source has {} bytes, and a Kubernetes Secret takes "
                                   "{}",
                                   input.source.size(), kMostSourceBytes),
                       {.advice = "Put the program into the image, or large files on a volume and "
                                  "into .cohortignore."});
  const std::string request = to_json(as_in_pods(input.request));
  if (request.size() + input.source.size() > kMostSecretBytes)
    throw InvalidInput(fmt::format("the job's description has {} bytes: too much for a Kubernetes "
                                   "Secret",
                                   request.size()),
                       {.advice = "Put large hyperparameters into a file of the source folder."});
  Json data{{kRequestFile, base64(request)}, {kSecretFile, base64(input.secret)}};
  if (!input.source.empty()) data[kSourceFile] = base64(input.source);
  return data;
}

}  // namespace

std::string job_name(std::string_view job, std::string_view mark) {
  std::string name;
  for (const char c : job.substr(0, kMostNamePart)) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    const char small = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    name += is_plain || small != c ? small : '-';
  }
  return fmt::format("cohort-{}-{}", name, mark);
}

Manifest make_manifest(const ManifestInput& input, const PodOptions& options) {
  if (input.request.job.spec.distribution == jobspec::Distribution::mpi)
    throw InvalidInput("engine \"kubernetes\" does not start mpirun",
                       {.advice = "Choose another distribution, or another engine."});
  const Pods pods = lay_out_pods(input.asked, input.name, input.name);
  Json job{{"apiVersion", "batch/v1"}, {"kind", "Job"}, {"metadata", metadata(input, options)}};
  job["metadata"]["annotations"] = {{kAttemptAnnotation, input.request.id}};
  const std::string& own_queue = input.request.job.spec.queue;
  const std::string queue = own_queue == "default" ? options.queue : own_queue;
  if (!queue.empty()) job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = queue;
  job["spec"] = job_spec(input, options, pods);
  if (!queue.empty()) job["spec"]["suspend"] = true;  // Kueue lets it go
  const Json service{{"apiVersion", "v1"},
                     {"kind", "Service"},
                     {"metadata", metadata(input, options)},
                     {"spec",
                      {{"clusterIP", "None"},
                       {"publishNotReadyAddresses", true},
                       {"selector", {{kLabel, input.name}}},
                       {"ports", {{{"name", "task"}, {"port", kTaskPort}}}}}}};
  const Json secret{
      {"apiVersion", "v1"}, {"kind", "Secret"},  {"metadata", metadata(input, options)},
      {"type", "Opaque"},   {"immutable", true}, {"data", secret_data(input)}};
  const int count = job["spec"]["completions"];
  return {.job = job, .service = service, .secret = secret, .pods = count};
}

Json as_job_set(const Manifest& manifest) {
  Json job_spec = manifest.job.at("spec");
  const bool suspended = job_spec.erase("suspend") > 0;
  // A JobSet's Job, and so its pods, have a name of their own: NAME-task-0.
  const std::string name = manifest.job.at("metadata").at("name");
  Json& container = job_spec["template"]["spec"]["containers"][0];
  Json words = Json::array();
  for (const auto& word : container["command"])
    words.push_back(word == name ? Json(name + "-task-0") : word);
  words.push_back("--service");
  words.push_back(name);
  container["command"] = words;
  Json meta = manifest.job.at("metadata");
  Json spec{{"network", {{"enableDNSHostnames", false}}},
            {"replicatedJobs",
             {{{"name", "task"}, {"replicas", 1}, {"template", {{"spec", job_spec}}}}}}};
  if (suspended) spec["suspend"] = true;
  return {{"apiVersion", "jobset.x-k8s.io/v1alpha2"},
          {"kind", "JobSet"},
          {"metadata", meta},
          {"spec", spec}};
}

std::vector<Json> service_account(const std::string& name_space) {
  const std::string name = "cohort-serve";
  const Json meta{{"name", name}, {"namespace", name_space.empty() ? "default" : name_space}};
  const auto rule = [](std::vector<std::string> groups, std::vector<std::string> kinds,
                       std::vector<std::string> verbs) {
    return Json{{"apiGroups", groups}, {"resources", kinds}, {"verbs", verbs}};
  };
  return {Json{{"apiVersion", "v1"}, {"kind", "ServiceAccount"}, {"metadata", meta}},
          Json{{"apiVersion", "rbac.authorization.k8s.io/v1"},
               {"kind", "Role"},
               {"metadata", meta},
               {"rules",
                {rule({"batch"}, {"jobs"}, {"create", "get", "patch", "delete"}),
                 rule({""}, {"services", "secrets"}, {"create"}),
                 rule({""}, {"pods"}, {"list", "watch"}), rule({""}, {"pods/log"}, {"get"}),
                 rule({""}, {"events"}, {"list"})}}},
          Json{{"apiVersion", "rbac.authorization.k8s.io/v1"},
               {"kind", "RoleBinding"},
               {"metadata", meta},
               {"roleRef",
                {{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "Role"}, {"name", name}}},
               {"subjects",
                {{{"kind", "ServiceAccount"}, {"name", name}, {"namespace", meta["namespace"]}}}}}};
}

std::string as_stream(const std::vector<Json>& documents) {
  std::string text;
  for (const Json& document : documents) text += "---\n" + document.dump(2) + "\n";
  return text;
}

}  // namespace cohort::engine::kubernetes

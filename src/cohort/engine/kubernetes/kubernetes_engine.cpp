#include "cohort/engine/kubernetes/kubernetes_engine.h"

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/folder_lock.h"
#include "cohort/engine/attempt_folder.h"
#include "cohort/engine/attempt_log.h"
#include "cohort/engine/kubernetes/status_file.h"

namespace cohort::engine::kubernetes {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::chrono::seconds kScaleLimit{2};
constexpr std::chrono::seconds kDoctorLimit{8};

bool was_submitted(const fs::path& folder) {
  std::error_code code;
  return fs::exists(AttemptFolder{folder}.request(), code);
}

}  // namespace

KubernetesEngine::KubernetesEngine(KubernetesSetup setup) : setup_(std::move(setup)) {}

void KubernetesEngine::check(const jobspec::ResolvedJob& job, const std::filesystem::path&) const {
  if (!setup_.access)
    throw InvalidInput("this service knows no Kubernetes cluster",
                       {.advice = "Start it with: cohort serve --kubeconfig FILE"});
  setup_.access();
  make_manifest(
      {.request = {.id = "check.1", .job = job}, .asked = setup_.read_words(job), .name = "check"},
      setup_.pods);
}

void KubernetesEngine::submit(const AttemptRequest& request) {
  if (!was_submitted(request.folder)) write_request(request);
  attempt_name(request);
  follow(request.folder);
}

// Another process may follow it: then what that one writes is read.
void KubernetesEngine::follow(const fs::path& folder) const {
  const std::lock_guard lock(mutex_);
  if (followers_.contains(folder)) return;
  if (auto own = lock_folder(folder))
    followers_[folder] = std::make_unique<AttemptFollower>(setup_, folder, std::move(*own));
}

AttemptStatus KubernetesEngine::known(const fs::path& folder) const {
  const std::lock_guard lock(mutex_);
  const auto found = followers_.find(folder);
  if (found == followers_.end())
    return read_status(folder).value_or(AttemptStatus{.state = AttemptState::starting});
  AttemptStatus status = found->second->status();
  if (found->second->is_done()) followers_.erase(found);
  return status;
}

AttemptStatus KubernetesEngine::observe(const fs::path& folder) const {
  if (!was_submitted(folder)) {
    const std::lock_guard lock(mutex_);
    const auto found = followers_.find(folder);
    if (found == followers_.end()) return {};
    if (found->second->is_done()) followers_.erase(found);  // it has removed the Job
    return {.state = AttemptState::lost,
            .failure = fmt::format("the attempt's folder '{}' was removed", folder.string())};
  }
  AttemptStatus status = known(folder);
  if (has_ended(status.state)) return status;
  follow(folder);
  std::error_code code;
  if (fs::exists(AttemptFolder{folder}.stop_mark(), code)) status.state = AttemptState::stopping;
  return status;
}

LogChunk KubernetesEngine::read_log(const fs::path& folder, std::string_view task,
                                    std::uint64_t offset, std::size_t most_bytes) const {
  const auto status = read_status(folder);
  return read_attempt_log({folder}, task, offset, most_bytes, status && has_ended(status->state));
}

void KubernetesEngine::stop(const fs::path& folder) {
  if (!was_submitted(folder) || has_ended(known(folder).state)) return;
  write_file_atomically(AttemptFolder{folder}.stop_mark(), utc_timestamp(), 0600);
  follow(folder);
}

void KubernetesEngine::scale(const fs::path& folder, int workers) {
  const auto refuse = [](const std::string& why) {
    throw InvalidInput(why, {.advice = "Only an elastic job that runs can have another number of "
                                       "workers."});
  };
  if (!was_submitted(folder) || known(folder).state != AttemptState::running)
    refuse("the attempt does not run");
  const launch::JobOptions asked = setup_.read_words(read_request({folder}).job);
  if (!asked.elastic) refuse("the job is not elastic");
  if (workers < asked.elastic->least || workers > asked.elastic->most)
    refuse(fmt::format("{} workers are outside of {} to {}", workers, asked.elastic->least,
                       asked.elastic->most));
  const KubeClient client(setup_.access(), nullptr);
  const std::string name_space =
      setup_.pods.name_space.empty() ? client.access().name_space : setup_.pods.name_space;
  try {
    AttemptObjects(client, name_space, known_attempt_name(folder).value().name)
        .scale(workers + 1, Deadline::after(kScaleLimit));  // and the coordinator
  } catch (const PeerError& error) {
    refuse(error.message());
  }
}

std::vector<fs::path> KubernetesEngine::list(const fs::path& jobs) const {
  std::vector<fs::path> running;
  std::error_code code;
  for (const auto& job : fs::directory_iterator(jobs, code))
    for (const auto& attempt : fs::directory_iterator(job.path() / "attempts", code)) {
      if (!known_attempt_name(attempt.path())) continue;
      const auto status = read_status(attempt.path());
      if (!status || !has_ended(status->state)) running.push_back(attempt.path());
    }
  return running;
}

std::vector<std::string> missing_for_kubernetes(const KubernetesSetup& setup) {
  std::vector<std::string> missing;
  try {
    if (!setup.access) return {"no Kubernetes cluster is known: give --kubeconfig FILE"};
    const KubeClient client(setup.access(), nullptr);
    const std::string name_space =
        setup.pods.name_space.empty() ? client.access().name_space : setup.pods.name_space;
    const Deadline deadline = Deadline::after(kDoctorLimit);
    const Json role = service_account(name_space).at(1);
    for (const Json& rule : role.at("rules"))
      for (const auto& kind : rule.at("resources"))
        for (const auto& verb : rule.at("verbs")) {
          const std::string name = kind;
          const std::size_t slash = name.find('/');
          Json asked{{"namespace", name_space},
                     {"group", rule.at("apiGroups")[0]},
                     {"resource", name.substr(0, slash)},
                     {"verb", verb}};
          if (slash != std::string::npos) asked["subresource"] = name.substr(slash + 1);
          const Json review{{"apiVersion", "authorization.k8s.io/v1"},
                            {"kind", "SelfSubjectAccessReview"},
                            {"spec", {{"resourceAttributes", asked}}}};
          const KubeAnswer answer =
              client.call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                          review.dump(), deadline);
          const json status = answer.body.is_object() ? answer.body.value("status", json::object())
                                                      : json::object();
          if (!answer.is_good())
            return {
                fmt::format("the API server does not say what is allowed: {}", answer.message())};
          if (!status.value("allowed", false))
            missing.push_back(fmt::format("the right to {} {} in the namespace {}",
                                          verb.get<std::string>(), name, name_space));
        }
  } catch (const Error& error) {
    missing.push_back(error.what());
  }
  return missing;
}

}  // namespace cohort::engine::kubernetes

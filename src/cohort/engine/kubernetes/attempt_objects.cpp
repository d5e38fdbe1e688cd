#include "cohort/engine/kubernetes/attempt_objects.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "cohort/base/crypto/secret.h"
#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/owned_files.h"

namespace cohort::engine::kubernetes {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kWatchSeconds = 300;
constexpr std::size_t kMostNameBytes = 4096;

fs::path name_file(const fs::path& folder) { return folder / "kubernetes.json"; }

void require_good(const KubeAnswer& answer, const std::string& what) {
  if (!answer.is_good())
    throw InvalidInput(fmt::format("Kubernetes refuses {}: {}", what, answer.message()),
                       {.advice = answer.status == 403
                                      ? "Give the service's account the rights that `cohort submit "
                                        "--print kubernetes-account` prints."
                                      : "Correct the job or the service's Kubernetes options."});
}

}  // namespace

AttemptName attempt_name(const AttemptRequest& request) {
  make_own_folder(request.folder);
  if (auto known = known_attempt_name(request.folder)) return *known;
  std::string mark = Secret::generate().to_text().substr(0, 10);
  const AttemptName mine{.name = job_name(request.job.spec.name, mark),
                         .secret = Secret::generate().to_text()};
  const fs::path file = name_file(request.folder);
  const fs::path draft = fmt::format("{}.{}", file.string(), mark);
  write_file_atomically(draft, json{{"name", mine.name}, {"secret", mine.secret}}.dump(), 0600);
  const int code = ::link(draft.c_str(), file.c_str()) == 0 ? 0 : errno;  // the first one wins
  ::unlink(draft.c_str());
  if (code != 0 && code != EEXIST)
    throw SystemError(fmt::format("cannot write '{}'", file.string()), code);
  return code == 0 ? mine : known_attempt_name(request.folder).value();
}

std::optional<AttemptName> known_attempt_name(const fs::path& folder) {
  if (std::error_code code; !fs::exists(name_file(folder), code)) return std::nullopt;
  const auto text = json::parse(read_own_file(name_file(folder), kMostNameBytes), nullptr,
                                /*allow_exceptions=*/false);
  if (!text.is_object() || !text.contains("name") || !text.contains("secret"))
    throw InvalidInput(fmt::format("'{}' is damaged", name_file(folder).string()));
  return AttemptName{.name = text.at("name"), .secret = text.at("secret")};
}

std::string AttemptObjects::jobs() const {
  return fmt::format("/apis/batch/v1/namespaces/{}/jobs", name_space_);
}

std::string AttemptObjects::core(const char* kind) const {
  return fmt::format("/api/v1/namespaces/{}/{}", name_space_, kind);
}

std::string AttemptObjects::selected() const {
  return core("pods") + "?labelSelector=" + percent_encoded(fmt::format("{}={}", kLabel, name_));
}

std::string AttemptObjects::create(const Manifest& manifest, Deadline deadline) const {
  KubeAnswer answer = client_.call("POST", jobs(), manifest.job.dump(), deadline);
  const std::string what = fmt::format("the Job '{}'", name_);
  if (answer.status == 409) {  // an earlier request made it, whose answer did not come here
    answer = client_.get(fmt::format("{}/{}", jobs(), name_), deadline);
    require_good(answer, what);
    const auto& meta = answer.body.at("metadata");
    const auto notes = meta.value("annotations", json::object());
    if (notes.value(kAttemptAnnotation, "") !=
        manifest.job.at("metadata").at("annotations").at(kAttemptAnnotation).get<std::string>())
      throw InvalidInput(fmt::format("the name '{}' is taken by another Job", name_),
                         {.advice = "Submit the job again."});
  }
  require_good(answer, what);
  const std::string uid = answer.body.at("metadata").at("uid");
  const Json owner{{"apiVersion", "batch/v1"}, {"kind", "Job"}, {"name", name_}, {"uid", uid}};
  create_beside("secrets", manifest.secret, owner, deadline);
  create_beside("services", manifest.service, owner, deadline);
  return uid;
}

void AttemptObjects::create_beside(const char* kind, Json object, const Json& owner,
                                   Deadline deadline) const {
  object["metadata"]["ownerReferences"] = {owner};
  const KubeAnswer answer = client_.call("POST", core(kind), object.dump(), deadline);
  if (answer.status == 409) return;  // no other process knows the name
  require_good(answer, fmt::format("the job's {}", kind));
}

std::optional<json> AttemptObjects::job(Deadline deadline) const {
  const KubeAnswer answer = client_.get(fmt::format("{}/{}", jobs(), name_), deadline);
  if (answer.status == 404) return std::nullopt;
  require_good(answer, "to show the Job");
  return answer.body;
}

json AttemptObjects::pods(Deadline deadline) const {
  const KubeAnswer answer = client_.get(selected(), deadline);
  require_good(answer, "to list pods");
  return answer.body;
}

HttpReplyReader AttemptObjects::watch_pods(const std::string& version, Deadline deadline) const {
  return client_.open(
      fmt::format("{}&watch=1&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}",
                  selected(), kWatchSeconds, percent_encoded(version)),
      deadline);
}

std::string AttemptObjects::log_path(const std::string& pod) const {
  return fmt::format("{}/{}/log?container={}", core("pods"), pod, kContainer);
}

std::string AttemptObjects::trouble(Deadline deadline) const {
  const KubeAnswer answer = client_.get(
      core("events") + "?fieldSelector=" +
          percent_encoded(fmt::format("involvedObject.kind=Job,involvedObject.name={}", name_)),
      deadline);
  if (!answer.is_good() || !answer.body.contains("items")) return "";  // a note, no more
  std::string said;
  for (const auto& event : answer.body.at("items"))
    if (event.value("type", "") == "Warning")
      said = fmt::format("{}: {}", event.value("reason", ""), event.value("message", ""));
  return said;
}

void AttemptObjects::scale(int pods, Deadline deadline) const {
  const Json change{{"spec", {{"completions", pods}, {"parallelism", pods}}}};
  require_good(client_.call("PATCH", fmt::format("{}/{}", jobs(), name_), change.dump(), deadline,
                            "application/merge-patch+json"),
               "another number of pods");
}

void AttemptObjects::remove(Deadline deadline) const {
  const Json how{
      {"apiVersion", "v1"}, {"kind", "DeleteOptions"}, {"propagationPolicy", "Foreground"}};
  const KubeAnswer answer =
      client_.call("DELETE", fmt::format("{}/{}", jobs(), name_), how.dump(), deadline);
  if (answer.status != 404) require_good(answer, "to delete the Job");
}

}  // namespace cohort::engine::kubernetes

#include "cohort/engine/kubernetes/pod_status.h"

#include <fmt/format.h>

#include "cohort/base/text.h"

namespace cohort::engine::kubernetes {
namespace {

using nlohmann::json;

constexpr const char* kIndexLabel = "batch.kubernetes.io/job-completion-index";

const json& at(const json& object, const char* key) {
  static const json nothing;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : nothing;
}

std::string text_at(const json& object, const char* key) {
  const json& value = at(object, key);
  return value.is_string() ? escape_controls(value.get<std::string>()) : "";
}

// A condition that holds; null: none.
const json& condition(const json& status, std::string_view type, std::string_view value) {
  static const json nothing;
  const json& all = at(status, "conditions");
  if (all.is_array())
    for (const json& one : all)
      if (text_at(one, "type") == type && text_at(one, "status") == value) return one;
  return nothing;
}

std::string wait_text(const json& waiting, const std::string& image) {
  const std::string reason = text_at(waiting, "reason"), message = text_at(waiting, "message");
  const std::string behind = message.empty() ? "" : ": " + message;
  if (reason == "ErrImagePull" || reason == "ImagePullBackOff" || reason == "InvalidImageName" ||
      reason == "ErrImageNeverPull")
    return fmt::format("the image '{}' cannot be had ({}){}", image, reason, behind);
  if (reason.empty() || reason == "ContainerCreating" || reason == "PodInitializing") return "";
  return reason + behind;
}

void read_container(const json& container, PodStatus& pod) {
  const json& state = at(container, "state");
  if (const json& running = at(state, "running"); running.is_object())
    pod.started = text_at(running, "startedAt");
  if (const json& waiting = at(state, "waiting"); waiting.is_object())
    pod.waits_for = wait_text(waiting, text_at(container, "image"));
  const json& terminated = at(state, "terminated");
  if (!terminated.is_object()) return;
  pod.started = text_at(terminated, "startedAt");
  pod.ended = text_at(terminated, "finishedAt");
  if (at(terminated, "exitCode").is_number_integer())
    pod.exit_code = terminated.at("exitCode").get<int>();
  if (const std::string reason = text_at(terminated, "reason");
      reason != "Completed" && reason != "Error" && pod.reason.empty())
    pod.reason = reason;
  const json& message = at(terminated, "message");
  if (!message.is_string()) return;
  pod.last_word = decode_last_word(message.get<std::string>());
  if (pod.last_word.kind == LastWord::Kind::none) pod.last_lines = message.get<std::string>();
}

}  // namespace

PodStatus read_pod(const json& object) {
  const json& meta = at(object, "metadata");
  const json& status = at(object, "status");
  PodStatus pod{.name = text_at(meta, "name"),
                .uid = text_at(meta, "uid"),
                .node = text_at(at(object, "spec"), "nodeName"),
                .created = text_at(meta, "creationTimestamp")};
  std::string index = text_at(at(meta, "labels"), kIndexLabel);
  if (index.empty()) index = text_at(at(meta, "annotations"), kIndexLabel);
  if (const auto number = parse_unsigned(index); number && *number < 1'000'000)
    pod.index = static_cast<int>(*number);
  const std::string phase = text_at(status, "phase");
  pod.phase = phase == "Running"     ? PodStatus::Phase::running
              : phase == "Succeeded" ? PodStatus::Phase::succeeded
              : phase == "Failed"    ? PodStatus::Phase::failed
                                     : PodStatus::Phase::pending;
  pod.is_leaving = at(meta, "deletionTimestamp").is_string();
  pod.reason = text_at(status, "reason");
  pod.message = text_at(status, "message");
  if (const json& disruption = condition(status, "DisruptionTarget", "True");
      disruption.is_object()) {
    if (pod.reason.empty()) pod.reason = text_at(disruption, "reason");
    if (pod.message.empty()) pod.message = text_at(disruption, "message");
  }
  if (const json& scheduled = condition(status, "PodScheduled", "False"); scheduled.is_object())
    pod.waits_for = fmt::format("no node takes the pod '{}' ({}): {}", pod.name,
                                text_at(scheduled, "reason"), text_at(scheduled, "message"));
  const json& containers = at(status, "containerStatuses");
  if (containers.is_array() && !containers.empty()) read_container(containers.front(), pod);
  return pod;
}

TaskStatus as_task(const PodStatus& pod, const std::string& name, int restarts) {
  using Phase = PodStatus::Phase;
  const char* state = pod.phase == Phase::running     ? (pod.is_leaving ? "stopping" : "running")
                      : pod.phase == Phase::succeeded ? "succeeded"
                      : pod.phase == Phase::failed    ? "failed"
                                                      : "starting";
  return {.name = name,
          .host = pod.node,
          .state = state,
          .exit_code = pod.exit_code,
          .restarts = restarts,
          .started = pod.started,
          .ended = pod.ended};
}

JobConditions read_job(const json& job) {
  const json& status = at(job, "status");
  JobConditions result;
  result.is_suspended = at(at(job, "spec"), "suspend") == true;
  if (condition(status, "Complete", "True").is_object()) result.end = JobEnd::complete;
  if (const json& failed = condition(status, "Failed", "True"); failed.is_object()) {
    result.end = JobEnd::failed;
    result.reason = text_at(failed, "reason");
    result.message = text_at(failed, "message");
  }
  return result;
}

}  // namespace cohort::engine::kubernetes

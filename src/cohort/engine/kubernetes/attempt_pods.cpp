#include "cohort/engine/kubernetes/attempt_pods.h"

#include <algorithm>
#include <csignal>
#include <tuple>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/base/text.h"
#include "cohort/launch/ending/root_cause.h"
#include "cohort/launch/output/error_line.h"
#include "cohort/launch/output/task_log.h"

namespace cohort::engine::kubernetes {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMostWords = 256 * 1024;  // of a log's end
constexpr std::size_t kMostNames = std::size_t{16} << 20;

// What the log at record.log says of the task's end.
void read_words(launch::TaskRecord& record) {
  std::error_code code;
  if (!fs::exists(record.log, code)) return;
  const std::string text = read_file(record.log);
  launch::ErrorLine error;
  launch::LastLines last;
  const std::size_t from = text.size() > kMostWords ? text.size() - kMostWords : 0;
  for (const std::string& line : split(std::string_view(text).substr(from), '\n')) {
    error.add(line);
    last.add(line, /*is_redraw=*/false);
  }
  record.last_lines = last.lines();
  record.error_line = error.text(*record.exit);
}

launch::ExitStatus exit_of(int code) {
  return code > 128 && code < 160 ? launch::ExitStatus{.signal = code - 128}
                                  : launch::ExitStatus{.code = code};
}

// Its Job's controller ended it, since another had failed or the job was to end.
bool was_removed(const PodStatus& pod) {
  return pod.is_leaving && pod.exit_code &&
         (exit_of(*pod.exit_code).signal == SIGTERM || exit_of(*pod.exit_code).signal == SIGKILL);
}

// Without an exit code there is no more to say than what Kubernetes says.
std::string pod_failure(const PodStatus& pod, const std::string& task) {
  return fmt::format("the pod '{}' of {} on {} was ended: {}{}", pod.name, task,
                     pod.node.empty() ? "no node" : pod.node,
                     pod.reason.empty() ? "no reason was given" : pod.reason,
                     pod.message.empty() ? "" : ": " + pod.message);
}

}  // namespace

AttemptPods::AttemptPods(const ClusterAccess& access, const AttemptObjects& objects, Pods layout,
                         const fs::path& run)
    : access_(access), objects_(objects), layout_(std::move(layout)), logs_(run / "logs") {
  make_own_folder(logs_);
  if (!fs::exists(logs_ / "pods.json")) return;
  const json names = json::parse(read_own_file(logs_ / "pods.json", kMostNames), nullptr,
                                 /*allow_exceptions=*/false);
  if (names.is_object())
    for (const auto& [uid, place] : names.items()) names_[uid] = place.get<std::pair<int, int>>();
}

void AttemptPods::write_names() const {
  json names = json::object();
  for (const auto& [uid, place] : names_) names[uid] = place;
  write_file_atomically(logs_ / "pods.json", names.dump(), 0600);
}

fs::path AttemptPods::log_file(int index, int number) const {
  std::string task = layout_.task_name(index);
  std::replace(task.begin(), task.end(), ':', '-');
  return logs_ / fmt::format("{}.attempt{}.log", task, number);
}

AttemptPods::Known& AttemptPods::known(const PodStatus& pod) {
  const auto found = pods_.find(pod.uid);
  if (found != pods_.end()) return found->second;
  if (!names_.contains(pod.uid)) {
    const auto before = std::count_if(names_.begin(), names_.end(), [&](const auto& entry) {
      return entry.second.first == pod.index;
    });
    names_[pod.uid] = {pod.index, static_cast<int>(before) + 1};
    write_names();
  }
  Known& one = pods_[pod.uid];
  one.number = names_[pod.uid].second;
  return one;
}

void AttemptPods::set(const PodStatus& pod) {
  if (pod.index < 0 || pod.uid.empty()) return;
  Known& one = known(pod);
  one.pod = pod;
  const bool has_begun = pod.phase == PodStatus::Phase::running || pod.has_ended();
  if (has_begun && !one.log)
    one.log = std::make_unique<PodLog>(access_, objects_.log_path(pod.name),
                                       log_file(pod.index, one.number));
  if (one.log && pod.has_ended()) one.log->pod_has_ended(pod.last_lines);
}

void AttemptPods::gone(const std::string& uid) {
  const auto found = pods_.find(uid);
  if (found == pods_.end()) return;
  found->second.is_gone = true;
  if (found->second.log) found->second.log->pod_has_ended(found->second.pod.last_lines);
}

void AttemptPods::keep_only(const std::vector<PodStatus>& pods) {
  for (const PodStatus& pod : pods) set(pod);
  for (const auto& [uid, one] : pods_)
    if (std::none_of(pods.begin(), pods.end(), [&](const auto& pod) { return pod.uid == uid; }))
      gone(uid);
}

void AttemptPods::all_have_ended() {
  for (auto& [uid, one] : pods_)
    if (one.log) one.log->pod_has_ended(one.pod.last_lines);
}

bool AttemptPods::logs_done() const {
  return std::all_of(pods_.begin(), pods_.end(), [](const auto& entry) {
    return !entry.second.log || entry.second.log->is_done();
  });
}

bool AttemptPods::all_seen_to_end(int count) const {
  for (int index = 0; index < count; ++index)
    if (newest(index) == nullptr) return false;
  return std::all_of(pods_.begin(), pods_.end(), [](const auto& entry) {
    return entry.second.pod.has_ended() || entry.second.is_gone;
  });
}

void AttemptPods::forget_positions() const {
  for (const auto& [uid, place] : names_)
    PodLog::forget_position(log_file(place.first, place.second));
}

const AttemptPods::Known* AttemptPods::newest(int index) const {
  const Known* found = nullptr;
  for (const auto& [uid, one] : pods_)
    if (one.pod.index == index && (found == nullptr || one.number > found->number)) found = &one;
  return found;
}

std::vector<TaskStatus> AttemptPods::tasks() const {
  std::map<int, const Known*> by_index;
  for (const auto& [uid, one] : pods_) by_index[one.pod.index] = newest(one.pod.index);
  std::vector<TaskStatus> tasks;
  for (const auto& [index, one] : by_index) {
    tasks.push_back(as_task(one->pod, layout_.task_name(index), one->number - 1));
    if (one->is_gone && !one->pod.has_ended()) tasks.back().state = "stopped";
  }
  return tasks;
}

int AttemptPods::running() const {
  const int first = layout_.has_coordinator ? 1 : 0;
  return static_cast<int>(std::count_if(pods_.begin(), pods_.end(), [&](const auto& entry) {
    const Known& one = entry.second;
    return one.pod.phase == PodStatus::Phase::running && !one.is_gone && one.pod.index >= first;
  }));
}

bool AttemptPods::any_started() const {
  return std::any_of(pods_.begin(), pods_.end(), [](const auto& entry) {
    return entry.second.pod.phase != PodStatus::Phase::pending;
  });
}

std::string AttemptPods::waits_for() const {
  for (const auto& [uid, one] : pods_)
    if (!one.is_gone && one.pod.phase == PodStatus::Phase::pending && !one.pod.waits_for.empty())
      return one.pod.waits_for;
  return "";
}

std::optional<AttemptPods::Cause> AttemptPods::root_cause() const {
  std::vector<launch::TaskRecord> failures, all;
  std::vector<const PodStatus*> ended;
  for (const auto& [uid, one] : pods_)
    if (one.pod.phase == PodStatus::Phase::failed) ended.push_back(&one.pod);
  const auto order = [](const PodStatus& pod) {
    return std::tuple(was_removed(pod), pod.ended, pod.is_leaving, pod.index, pod.uid);
  };
  std::sort(ended.begin(), ended.end(),
            [&](const auto* a, const auto* b) { return order(*a) < order(*b); });
  for (const PodStatus* pod : ended) {
    if (was_removed(*pod) && !failures.empty()) break;
    const Known& one = pods_.at(pod->uid);
    // An eviction breaks what the others do, whatever they say of it.
    if (!pod->exit_code || pod->reason == "Evicted" || pod->reason == "EvictionByEvictionAPI" ||
        pod->reason == "PreemptionByScheduler" || pod->reason == "DeletionByTaintManager")
      return Cause{pod_failure(*pod, layout_.task_name(pod->index)), pod->exit_code};
    launch::TaskRecord record;
    record.id = layout_.task(pod->index);
    record.host = pod->node;
    record.log = log_file(pod->index, one.number);
    record.exit = exit_of(*pod->exit_code);
    const auto begin = parse_timestamp(pod->started), end = parse_timestamp(pod->ended);
    if (begin && end) record.ran_for = std::chrono::milliseconds((*end - *begin) / 1'000'000);
    read_words(record);
    record.last_word = pod->last_word;
    if (pod->reason == "OOMKilled") record.memory_evidence = "Kubernetes says OOMKilled";
    failures.push_back(record);
  }
  if (failures.empty()) return std::nullopt;
  const launch::TaskRecord cause = launch::choose_root_cause(failures, failures);
  std::string words = cause.error_line;
  if (words.empty()) words = cause.last_word.message;
  return Cause{
      fmt::format("{} on {} {}{}", cluster::to_string(cause.id), cause.host,
                  launch::how_it_ended(cause), words.empty() ? "" : ": " + escape_controls(words)),
      cause.exit->shell_code()};
}

}  // namespace cohort::engine::kubernetes

#include "cohort/launch/record/old_runs.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>

#include "cohort/base/error.h"
#include "cohort/base/files/folder_lock.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/base/unique_fd.h"
#include "cohort/launch/record/job_record.h"

namespace cohort::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestRecord = std::size_t{64} << 20;

struct Run {
  std::string name;
  timespec changed;  // its job.json
};

bool is_older(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

bool is_own(const struct stat& info, mode_t type) {
  return (info.st_mode & S_IFMT) == type && info.st_uid == ::geteuid();
}

UniqueFd open_run(int parent, const std::string& name) {
  UniqueFd folder(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!folder || ::fstat(folder.get(), &info) != 0 || !is_own(info, S_IFDIR)) return {};
  return folder;
}

UniqueFd open_record(int folder, struct stat& info) {
  UniqueFd file(::openat(folder, OutputFolder::kRecord, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file || ::fstat(file.get(), &info) != 0 || !is_own(info, S_IFREG)) return {};
  return file;
}

// True when a launcher wrote it about the job that the folder is named after.
bool is_record_of(const fs::path& folder, const std::string& name) {
  std::string text;
  try {
    text = read_own_file(folder / OutputFolder::kRecord, kLongestRecord);
  } catch (const Error&) {  // it has gone, or is not this user's
    return false;
  }
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto has = [&](const char* key, nlohmann::json::value_t type) {
    const auto found = json.find(key);
    return found != json.end() && found->type() == type;
  };
  using Type = nlohmann::json::value_t;
  return json.is_object() && has("job", Type::string) && json["job"] == name &&
         has("state", Type::string) && has("command", Type::array) && has("tasks", Type::array) &&
         json.contains("launcher_pid") && json.contains("attempt") && json.contains("root_cause");
}

// What launcher, session and reports write; the rest is the program's.
bool is_written_about_a_run(std::string_view name) {
  constexpr std::string_view kNames[] = {
      ".lock",  OutputFolder::kRecord, OutputFolder::kOptions, "logs",        "membership.jsonl",
      "ledger", "ps-stats.json",       "metrics.csv",          "tensorboard", "trace"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

bool holds_results(const fs::path& folder) {
  std::error_code failed;
  for (auto entry = fs::directory_iterator(folder, failed); entry != fs::directory_iterator();
       entry.increment(failed)) {
    if (!is_written_about_a_run(entry->path().filename().string())) return true;
    if (failed) break;
  }
  return static_cast<bool>(failed);
}

std::vector<Run> find_runs(const fs::path& parent, int parent_fd) {
  std::vector<Run> runs;
  std::error_code failed;
  for (auto entry = fs::directory_iterator(parent, failed);
       !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    const UniqueFd folder = open_run(parent_fd, name);
    struct stat info {};
    if (folder && open_record(folder.get(), info)) runs.push_back({name, info.st_mtim});
  }
  std::sort(runs.begin(), runs.end(),
            [](const Run& a, const Run& b) { return is_older(b.changed, a.changed); });
  return runs;
}

// The folder's lock, which a launcher at work in it has; nothing when it cannot be had.
std::optional<UniqueFd> try_lock(const fs::path& folder) {
  try {
    return lock_folder(folder);
  } catch (const Error&) {  // it has gone, or its lock is not this user's: none of ours to remove
    return std::nullopt;
  }
}

// Under its lock, and one on the folder itself, by which launchers that remove it keep apart.
bool remove_run(const fs::path& parent, int parent_fd, const Run& run) {
  const UniqueFd folder = open_run(parent_fd, run.name);
  if (!folder || ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) return false;
  const fs::path path = parent / run.name;
  const auto lock = try_lock(path);
  if (!lock) return false;
  // Looked at again: it may have gone, come to life or been pinned meanwhile.
  struct stat info {};
  if (!open_record(folder.get(), info) || is_older(run.changed, info.st_mtim) ||
      ::faccessat(folder.get(), kPinned, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
      !is_record_of(path, run.name) || holds_results(path))
    return false;
  // The record last: what an interrupted removal leaves is still a run's, and goes the next time.
  std::error_code failed;
  std::vector<fs::path> inside;
  for (const auto& entry : fs::directory_iterator(path, failed))
    if (entry.path().filename() != OutputFolder::kRecord) inside.push_back(entry.path());
  for (const auto& entry : inside)
    if (!failed) fs::remove_all(entry, failed);
  if (!failed) fs::remove_all(path, failed);
  return !failed;
}

}  // namespace

std::vector<std::string> remove_old_runs(const fs::path& parent, int runs,
                                         std::chrono::seconds time, fs::file_time_type now) {
  std::vector<std::string> removed;
  const UniqueFd parent_fd(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent_fd || runs <= 0) return removed;
  const auto since = std::chrono::file_clock::to_sys(now - time);
  const auto limit = std::chrono::duration_cast<std::chrono::seconds>(since.time_since_epoch());
  const auto all = find_runs(parent, parent_fd.get());
  for (auto run = all.rbegin(); run != all.rend(); ++run) {
    if (all.rend() - run <= runs || run->changed.tv_sec >= limit.count()) break;
    if (remove_run(parent, parent_fd.get(), *run)) removed.push_back(run->name);
  }
  return removed;
}

}  // namespace cohort::launch

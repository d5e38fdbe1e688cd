#include "cohort/ps/durable/log_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <system_error>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/text.h"

namespace cohort::ps {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kLogName = "log-", kLogEnding = ".wal";
constexpr std::string_view kSnapshotName = "snapshot-", kSnapshotEnding = ".image";

std::optional<std::uint64_t> number_of(std::string_view name, std::string_view beginning,
                                       std::string_view ending) {
  if (!name.starts_with(beginning) || !name.ends_with(ending)) return std::nullopt;
  name.remove_prefix(beginning.size());
  name.remove_suffix(ending.size());
  return parse_unsigned(name);
}

void delete_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) log::warning("cannot delete '{}': {}", path.string(), error.message());
}

}  // namespace

fs::path log_path(const fs::path& folder, std::uint64_t number) {
  return folder / fmt::format("{}{:08}{}", kLogName, number, kLogEnding);
}

fs::path snapshot_path(const fs::path& folder, std::uint64_t number) {
  return folder / fmt::format("{}{:08}{}", kSnapshotName, number, kSnapshotEnding);
}

LogFolderContents list_log_folder(const fs::path& folder) {
  LogFolderContents contents;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (auto log = number_of(name, kLogName, kLogEnding))
      contents.logs.push_back(*log);
    else if (auto snapshot = number_of(name, kSnapshotName, kSnapshotEnding))
      contents.snapshots.push_back(*snapshot);
  }
  if (error) throw SystemError(fmt::format("cannot list '{}'", folder.string()), error.value());
  std::ranges::sort(contents.logs);
  std::ranges::sort(contents.snapshots);
  return contents;
}

LogFolderLock::LogFolderLock(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) {
    file_.reset(::open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file_) error.assign(errno, std::generic_category());
  }
  if (error)
    throw InvalidInput(fmt::format("'{}' cannot be written, where the parameter server's log "
                                   "should go: {}",
                                   folder.string(), error.message()),
                       {.advice = "Name a folder that this user may write."});
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0)
    throw InvalidInput(
        fmt::format("'{}' is in use by another parameter server", folder.string()),
        {.advice = "Give each server a folder of its own, or end the other process."});
}

void sync_folder(const fs::path& folder) {
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0)
    throw SystemError(fmt::format("cannot sync '{}'", folder.string()), errno);
}

void clean_log_folder(const fs::path& folder) {
  LogFolderContents contents = list_log_folder(folder);
  auto count = contents.snapshots.size();
  if (count == 0) return;
  std::uint64_t oldest = contents.snapshots[count < 2 ? 0 : count - 2];
  for (std::uint64_t number : contents.snapshots)
    if (number < oldest) delete_file(snapshot_path(folder, number));
  for (std::uint64_t number : contents.logs)
    if (number < oldest) delete_file(log_path(folder, number));
  std::error_code error;
  std::vector<fs::path> leftovers;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (auto ending = at->path().extension(); ending == ".tmp" || ending == ".damaged")
      leftovers.push_back(at->path());
  for (const auto& path : leftovers) delete_file(path);
}

}  // namespace cohort::ps

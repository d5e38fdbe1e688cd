#include "cohort/service/store/source_store.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>

#include "cohort/base/log/log.h"
#include "cohort/jobspec/source/source_package.h"
#include "cohort/service/store/remove_job.h"
#include "cohort/service/store/remove_tree.h"

namespace cohort::service {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kArchiveEnding = ".tar.gz";
constexpr std::size_t kIdSize = 64;
constexpr Millis kUnpackingTime = 24 * 3600 * Millis{1000};  // far longer than any takes
constexpr int kTries = 10;

fs::file_time_type file_time_at(Millis time) {
  return std::chrono::file_clock::from_sys(
      std::chrono::sys_time<std::chrono::milliseconds>(std::chrono::milliseconds(time)));
}

// False: there is no such file or folder.
bool touch(const fs::path& path) {
  if (::utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return fs::exists(path);  // a disk that cannot be written to
}

// The SHA-256 that a name begins with, and what follows it.
struct SourceName {
  std::string id;  // "": it is none of a source
  std::string ending;
};

SourceName source_name(const fs::path& path) {
  const std::string name = path.filename().string();
  SourceName parts{name.substr(0, kIdSize), name.size() > kIdSize ? name.substr(kIdSize) : ""};
  return jobspec::is_source_id(parts.id) ? parts : SourceName{};
}

// Under another name first: if a caller found it just now, its time says so, and it comes back.
bool remove_unless_used(const fs::path& path, fs::file_time_type since) {
  const fs::path removed = removed_name(path);
  std::error_code code;
  fs::rename(path, removed, code);
  if (code) return false;
  if (const auto seen = fs::last_write_time(removed, code); !code && seen > since) {
    fs::rename(removed, path, code);
    if (!code) return false;  // else it was made anew meanwhile
  }
  remove_tree(removed);
  return true;
}

}  // namespace

fs::path source_file(const RunFolders& folders, const std::string& sha256) {
  return folders.sources() / (sha256 + std::string(kArchiveEnding));
}

bool use_source(const RunFolders& folders, const std::string& sha256) {
  return touch(source_file(folders, sha256));
}

fs::path unpacked_source(const RunFolders& folders, const std::string& sha256) {
  for (int i = 0; i < kTries; ++i) {
    const fs::path place =
        jobspec::unpack_source(source_file(folders, sha256), sha256, folders.sources());
    if (touch(place)) return place;  // else it was being removed
  }
  throw SystemError(fmt::format("cannot unpack the source {}", sha256), ENOENT);
}

int remove_unused_sources(const RunFolders& folders, const std::set<std::string>& used, Millis now,
                          Millis since) {
  std::vector<fs::path> paths;
  std::error_code code;
  for (auto entry = fs::directory_iterator(folders.sources(), code);
       !code && entry != fs::directory_iterator(); entry.increment(code))
    paths.push_back(entry->path());
  int removed = 0;
  for (const auto& path : paths) {
    const SourceName name = source_name(path);
    const bool is_source = name.ending.empty() || name.ending == kArchiveEnding;
    if (name.id.empty()) continue;
    std::error_code failed;
    if (is_source && used.contains(name.id)) {
      fs::last_write_time(path, file_time_at(now), failed);
      continue;
    }
    const auto limit = file_time_at(is_source ? since : now - kUnpackingTime);
    const auto seen = fs::last_write_time(path, failed);
    if (failed || seen > limit) continue;
    try {
      if (remove_unless_used(path, limit) && is_source) ++removed;
    } catch (const std::exception& error) {
      log::warning("retention: {}", error.what());
    }
  }
  return removed;
}

}  // namespace cohort::service

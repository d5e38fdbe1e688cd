#include "cohort/service/store/remove_job.h"

namespace cohort::service {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRemovedPrefix = ".removed-";

// Of the caller's own folders only: others are not to be changed.
void make_writable(const fs::path& path) {
  std::error_code ignored;
  if (fs::symlink_status(path, ignored).type() != fs::file_type::directory) return;
  fs::permissions(path, fs::perms::owner_all, fs::perm_options::add, ignored);
  for (auto entry = fs::recursive_directory_iterator(path, ignored);
       entry != fs::recursive_directory_iterator(); entry.increment(ignored)) {
    std::error_code code;
    // Before the iterator goes into it.
    if (entry->symlink_status(code).type() == fs::file_type::directory)
      fs::permissions(entry->path(), fs::perms::owner_all, fs::perm_options::add, code);
  }
}

}  // namespace

void remove_tree(const fs::path& path) {
  std::error_code code;
  fs::remove_all(path, code);
  if (!code) return;
  make_writable(path);
  fs::remove_all(path, code);
  if (code) throw SystemError(fmt::format("cannot remove '{}'", path.string()), code.value());
}

bool remove_ended_job(RunStore& store, const RunFolders& folders, std::string_view id,
                      PinnedJobs pinned) {
  const fs::path removed = folders.jobs() / fmt::format("{}{}", kRemovedPrefix, id);
  bool is_removed = false;
  store.together([&] {
    const auto job = store.find_job(id);
    if (!job || !has_ended(job->state) || (job->pinned && pinned == PinnedJobs::stay)) return;
    std::error_code code;
    fs::rename(folders.job(id), removed, code);
    if (code && code != std::errc::no_such_file_or_directory)
      throw SystemError(fmt::format("cannot rename '{}'", folders.job(id).string()), code.value());
    store.remove_job(id);
    is_removed = true;
  });
  if (is_removed) remove_tree(removed);
  return is_removed;
}

void finish_removals(const RunFolders& folders) {
  std::vector<fs::path> left;
  std::error_code code;
  for (auto entry = fs::directory_iterator(folders.jobs(), code);
       !code && entry != fs::directory_iterator(); entry.increment(code))
    if (entry->path().filename().string().starts_with(kRemovedPrefix))
      left.push_back(entry->path());
  for (const auto& path : left) remove_tree(path);
}

}  // namespace cohort::service

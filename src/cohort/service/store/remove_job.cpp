#include "cohort/service/store/remove_job.h"

#include <cerrno>

#include "cohort/service/store/remove_tree.h"

namespace cohort::service {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRemovedPrefix = ".removed-";

}  // namespace

fs::path removed_name(const fs::path& path) {
  return path.parent_path() / fmt::format("{}{}", kRemovedPrefix, path.filename().string());
}

std::optional<fs::path> take_away(RunStore& store, const RunFolders& folders, std::string_view id,
                                  PinnedJobs pinned) {
  const fs::path removed = removed_name(folders.job(id));
  bool is_removed = false;
  const auto remove = [&] {
    const auto job = store.find_job(id);
    if (!job || !has_ended(job->state) || (job->pinned && pinned == PinnedJobs::stay)) return;
    std::error_code code;
    fs::rename(folders.job(id), removed, code);
    if (code && code != std::errc::no_such_file_or_directory)
      throw SystemError(fmt::format("cannot rename '{}'", folders.job(id).string()), code.value());
    store.remove_job(id);
    is_removed = true;
  };
  try {
    store.together(remove);
  } catch (const SystemError& error) {
    if (error.code() != ENOSPC || !fs::exists(removed)) throw;
    remove_tree(removed);
    store.together(remove);
  }
  return is_removed ? std::optional(removed) : std::nullopt;
}

bool remove_ended_job(RunStore& store, const RunFolders& folders, std::string_view id,
                      PinnedJobs pinned) {
  const auto removed = take_away(store, folders, id, pinned);
  if (removed) remove_tree(*removed);
  return removed.has_value();
}

void finish_removals(const RunFolders& folders) {
  std::vector<fs::path> left;
  for (const auto& folder : {folders.jobs(), folders.sources()}) {
    std::error_code code;
    for (auto entry = fs::directory_iterator(folder, code);
         !code && entry != fs::directory_iterator(); entry.increment(code))
      if (entry->path().filename().string().starts_with(kRemovedPrefix))
        left.push_back(entry->path());
  }
  for (const auto& path : left) remove_tree(path);
}

}  // namespace cohort::service

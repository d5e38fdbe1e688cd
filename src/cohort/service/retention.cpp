#include "cohort/service/retention.h"

#include <algorithm>

#include "cohort/base/log/log.h"

namespace cohort::service {
namespace {

namespace fs = std::filesystem;

constexpr Millis kDay = Millis{24} * 3600 * 1000;

std::uint64_t bytes_below(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code code;  // files come and go while a job runs
  for (fs::recursive_directory_iterator it(folder, code), end; !code && it != end;
       it.increment(code)) {
    std::error_code gone;
    if (it->is_regular_file(gone) && !it->is_symlink(gone))
      if (const auto size = it->file_size(gone); !gone) bytes += size;
  }
  return bytes;
}

// Not pinned, in the order in which they ended.
std::vector<JobRow> removable_jobs(const RunStore& store) {
  auto rows = store.jobs(
      {.states = {JobState::succeeded, JobState::failed, JobState::stopped}, .limit = 0});
  std::erase_if(rows, [](const JobRow& row) { return row.pinned; });
  std::sort(rows.begin(), rows.end(),
            [](const JobRow& a, const JobRow& b) { return a.ended < b.ended; });
  return rows;
}

bool remove_job(JobOperations& operations, const JobRow& row, std::string_view why) {
  try {
    operations.remove(row.id);
    log::info("job {} was removed: {}", row.id, why);
    return true;
  } catch (const Error& error) {
    log::warning("job {} cannot be removed: {}", row.id, error.what());
    return false;
  }
}

}  // namespace

int apply_retention(const Retention& retention, JobOperations& operations,
                    const RunFolders& folders, Millis now) {
  int removed = 0;
  const Millis oldest = now - retention.days * kDay;
  std::uint64_t total = retention.bytes > 0 ? bytes_below(folders.jobs()) : 0;
  for (const JobRow& row : removable_jobs(operations.store())) {
    const bool is_old = retention.days > 0 && row.ended < oldest;
    const bool is_full = retention.bytes > 0 && total > retention.bytes;
    if (!is_old && !is_full) break;
    const std::uint64_t freed = is_full ? bytes_below(folders.job(row.id)) : 0;
    if (!remove_job(operations, row, is_old ? "it ended long ago" : "the folder is full")) continue;
    total -= std::min(total, freed);
    ++removed;
  }
  if (retention.days > 0) operations.store().remove_old_events(oldest);
  return removed;
}

}  // namespace cohort::service

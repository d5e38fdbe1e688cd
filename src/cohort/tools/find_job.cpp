#include "cohort/tools/find_job.h"

#include <algorithm>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/launch/record/job_record.h"

namespace cohort::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJobs = "cohort-output";
constexpr std::size_t kMostNamed = 5;

bool is_job(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / launch::OutputFolder::kRecord, ignored);
}

// Newest first: ids begin with the time.
std::vector<std::string> known_jobs() {
  std::vector<std::string> ids;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(kJobs, ignored))
    if (is_job(entry.path())) ids.push_back(entry.path().filename().string());
  std::sort(ids.rbegin(), ids.rend());
  return ids;
}

std::string name_some(std::vector<std::string> ids) {
  const bool more = ids.size() > kMostNamed;
  if (more) ids.resize(kMostNamed);
  return escape_controls(join(ids, ", ")) + (more ? ", ..." : "");
}

}  // namespace

std::optional<fs::path> find_job_folder(const std::string& name) {
  if (!name.empty() && is_job(name)) return name;
  const auto ids = known_jobs();
  if (name == "latest" && !ids.empty()) return fs::path(kJobs) / ids.front();
  std::vector<std::string> meant;
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(meant),
               [&](const std::string& id) { return !name.empty() && id.starts_with(name); });
  if (std::find(meant.begin(), meant.end(), name) != meant.end()) meant = {name};
  if (meant.size() == 1) return fs::path(kJobs) / meant.front();
  if (meant.size() > 1)
    throw InvalidInput(
        fmt::format("'{}' begins {} job ids: {}", name, meant.size(), name_some(meant)),
        {.advice = "Give more of the id."});
  return std::nullopt;
}

fs::path find_job(const std::string& name) {
  if (auto folder = find_job_folder(name)) return *folder;
  const auto ids = known_jobs();
  throw InvalidInput(
      fmt::format("no job '{}': neither an output folder with a job.json nor a job under {}/", name,
                  kJobs),
      {.advice = ids.empty() ? "Name the folder that the job was given with --output."
                             : fmt::format("There are: {}.", name_some(ids))});
}

}  // namespace cohort::tools

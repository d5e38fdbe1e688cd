#include "cohort/launch/job/job_words.h"

#include <fmt/format.h>

namespace cohort::launch {

std::string count(int number, std::string_view noun, std::string_view plural) {
  return fmt::format("{} {}", number, number == 1 ? noun : plural);
}

std::string describe_tasks(const JobOptions& options) {
  if (options.elastic && options.elastic->least < options.elastic->most)
    return fmt::format("{} to {} workers", options.elastic->least, options.elastic->most);
  std::string text = count(options.workers, "worker", "workers");
  if (options.chief_name == ChiefName::chief) text += " (the first as chief)";
  if (options.chief_name == ChiefName::master) text += " (the first as master)";
  if (options.coordinator) text += ", a coordinator";
  if (options.ps > 0) text += ", " + count(options.ps, "parameter server", "parameter servers");
  if (options.evaluator) text += ", an evaluator";
  return text;
}

std::filesystem::path as_seen_from_here(const std::filesystem::path& path) {
  std::error_code gone;  // the current folder may have been deleted
  auto relative = path.lexically_relative(std::filesystem::current_path(gone));
  return gone || relative.empty() || *relative.begin() == ".." ? path : relative;
}

}  // namespace cohort::launch

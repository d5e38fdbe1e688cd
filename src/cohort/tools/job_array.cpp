#include "cohort/tools/job_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <random>
#include <set>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::tools {
namespace {

InvalidInput bad_array(std::string_view text, const std::string& why) {
  return InvalidInput(fmt::format("--array '{}': {}", escape_controls(text), why),
                      {.advice = "Write it as in 0-9, 1,3,7 or 0-15:4."});
}

int array_number(std::string_view text, std::string_view part, const char* what, int least) {
  const auto number = parse_unsigned(part);
  if (!number || *number < static_cast<std::uint64_t>(least) || *number > kMostArrayIndex)
    throw bad_array(text, fmt::format("{} '{}' must be a number from {} to {}", what,
                                      escape_controls(part), least, kMostArrayIndex));
  return static_cast<int>(*number);
}

// "7", "0-9", "0-15:4".
void add_range(std::string_view text, std::string_view range, std::vector<int>& indices) {
  const std::size_t colon = range.find(':');
  const std::string_view ends = range.substr(0, colon);
  const std::size_t dash = ends.find('-');
  const int first = array_number(text, ends.substr(0, dash), "the index", 0);
  if (dash == ends.npos && colon != range.npos)
    throw bad_array(text, "a step belongs behind a range");
  const int last =
      dash == ends.npos ? first : array_number(text, ends.substr(dash + 1), "the index", 0);
  const int step =
      colon == range.npos ? 1 : array_number(text, range.substr(colon + 1), "the step", 1);
  if (last < first) throw bad_array(text, fmt::format("{} is below {}", last, first));
  for (std::int64_t index = first; index <= last; index += step) {
    if (indices.size() == kMostElements)
      throw bad_array(text, fmt::format("it has more than {} elements", kMostElements));
    indices.push_back(static_cast<int>(index));
  }
}

}  // namespace

JobArray parse_array(std::string_view text) {
  JobArray array{.text = std::string(text)};
  const std::size_t percent = text.find('%');
  if (percent != text.npos)
    array.most_at_once = array_number(text, text.substr(percent + 1), "the number behind %", 1);
  for (const std::string& range : split(text.substr(0, percent), ','))
    add_range(text, range, array.indices);
  if (array.indices.empty()) throw bad_array(text, "it names no index");
  if (std::set<int>(array.indices.begin(), array.indices.end()).size() != array.indices.size())
    throw bad_array(text, "an index is in it twice");
  return array;
}

std::string new_array_id() {
  using namespace std::chrono;
  const auto now = duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
  std::random_device random;
  return fmt::format("{}{:03}", now, random() % 1000);
}

jobspec::JobSpec array_element(jobspec::JobSpec spec, const JobArray& array, std::size_t place,
                               const std::string& id) {
  const std::string index = std::to_string(array.indices.at(place));
  const auto [least, most] = std::minmax_element(array.indices.begin(), array.indices.end());
  spec.env["COHORT_ARRAY_INDEX"] = spec.env["SLURM_ARRAY_TASK_ID"] = index;
  spec.env["COHORT_ARRAY_ID"] = spec.env["SLURM_ARRAY_JOB_ID"] = id;
  spec.env["COHORT_ARRAY_COUNT"] = spec.env["SLURM_ARRAY_TASK_COUNT"] =
      std::to_string(array.indices.size());
  spec.env["SLURM_ARRAY_TASK_MIN"] = std::to_string(*least);
  spec.env["SLURM_ARRAY_TASK_MAX"] = std::to_string(*most);
  spec.tags["array"] = id;
  spec.tags["array_index"] = index;
  if (!spec.name.empty()) spec.name += "-" + index;
  if (!spec.output.empty()) spec.output = (std::filesystem::path(spec.output) / index).string();
  return spec;
}

}  // namespace cohort::tools

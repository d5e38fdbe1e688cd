#include "cohort/tools/run_words.h"

#include <nlohmann/json.hpp>

#include "cohort/base/error.h"

namespace cohort::tools {

using nlohmann::ordered_json;

std::string to_json(const RunWords& words) {
  ordered_json json{{"arguments", words.arguments},
                    {"program", words.program},
                    {"job_file", nullptr},
                    {"file_arguments", words.file_arguments}};
  if (!words.job_file.empty()) json["job_file"] = words.job_file;
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

RunWords run_words_from_json(std::string_view text, const std::string& source) {
  try {
    const auto json = ordered_json::parse(text);
    RunWords words{.arguments = json.at("arguments").get<Words>(),
                   .program = json.at("program").get<Words>(),
                   .file_arguments = json.at("file_arguments").get<Words>()};
    if (!json.at("job_file").is_null()) words.job_file = json.at("job_file").get<std::string>();
    return words;
  } catch (const nlohmann::json::exception&) {
    throw InvalidInput(
        fmt::format("'{}' does not hold the words that this version keeps of a job", source),
        {.advice = "Another version of Cohort wrote it, or it was changed: start the job anew with "
                   "cohort run."});
  }
}

}  // namespace cohort::tools

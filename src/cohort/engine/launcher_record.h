#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cohort/engine/attempt_folder.h"

// The launcher's record of an attempt (RUN/job.json, docs/launcher.md), read by field. The job's own
// program can write that file, too: what is no record counts as if it were not there, and a field
// of another type as if it were missing.
namespace cohort::engine {

// Null for what is no object, or nested too deeply.
nlohmann::ordered_json parse_record(std::string_view text);

// Of a run by its output folder; null for what is no record. Throws where the file is not there, or
// is not this user's own.
nlohmann::ordered_json read_run_record(const std::filesystem::path& output);

// Null where the launcher has written none, or its folder is gone.
nlohmann::ordered_json read_launcher_record(const AttemptFolder& folder);

// The record as the launcher has it now, which takes up to 2 s; `record` where it does not answer.
nlohmann::ordered_json live_launcher_record(nlohmann::ordered_json record);

std::string record_text(const nlohmann::ordered_json& json, const char* key);  // "": none
std::optional<int> record_number(const nlohmann::ordered_json& json, const char* key);
// Empty where it is no array.
const nlohmann::ordered_json& record_list(const nlohmann::ordered_json& json, const char* key);

// "worker:1", of an object with the fields `type` and `index`.
std::string record_task(const nlohmann::ordered_json& task);

}  // namespace cohort::engine

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cohort/service/store/tokens.h"

// Rows of the run store as the API shows them: the schemas of openapi.json by the same names. Pure.
namespace cohort::service {

nlohmann::ordered_json job_json(const JobRow& row);
nlohmann::ordered_json attempt_json(const AttemptRow& row);
nlohmann::ordered_json task_json(const TaskRow& row);
nlohmann::ordered_json event_json(const EventRow& row);
nlohmann::ordered_json metric_json(const MetricRow& row);
nlohmann::ordered_json token_json(const TokenRow& row);
// LogEnd: how a job ended.
nlohmann::ordered_json end_json(const JobRow& row);

// UTF-8, whatever the bytes of texts are.
std::string dumped(const nlohmann::ordered_json& json);
// A text as JSON, behind `json`. Quick for ASCII: logs are many bytes.
void append_text(std::string& json, std::string_view text);

}  // namespace cohort::service

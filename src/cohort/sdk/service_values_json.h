#pragma once

#include <string_view>

#include "cohort/sdk/service_values.h"

// The answers of a service, from JSON. Pure functions. Failure: ProtocolError for a text that is not
// what the API says (docs/api.md); fields that are not known are left alone.
namespace cohort::sdk {

Job job_from_json(std::string_view text);
JobPage job_page_from_json(std::string_view text);
CheckedJob checked_from_json(std::string_view text);
ServiceInfo service_from_json(std::string_view text);
std::vector<JobTask> tasks_from_json(std::string_view text);
LogText log_text_from_json(std::string_view text);
JobEnd job_end_from_json(std::string_view text);
JobEvent event_from_json(std::string_view text);

struct EventPage {
  std::vector<JobEvent> events;
  std::int64_t next = 0;  // `after` of the next page; 0: this was the last
};
EventPage event_page_from_json(std::string_view text);

struct MetricPage {
  std::vector<Metric> metrics;
  std::int64_t next = 0;
};
MetricPage metric_page_from_json(std::string_view text);

std::vector<JobFile> files_from_json(std::string_view text);
std::vector<TokenInfo> tokens_from_json(std::string_view text);
TokenInfo token_from_json(std::string_view text);
// One field of an object.
std::string text_from_json(std::string_view text, const char* field);

// {"error": {"message", "advice"}}; nothing for another text.
struct ServiceError {
  std::string message, advice;
};
std::optional<ServiceError> error_from_json(std::string_view text);

}  // namespace cohort::sdk

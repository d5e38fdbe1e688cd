#include "cohort/service/api/json_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cohort/service/http/time_text.h"

namespace cohort::service {
namespace {

using Json = nlohmann::ordered_json;

Json time_or_null(Millis time) { return time == 0 ? Json(nullptr) : Json(time_text(time)); }

template <typename T>
Json value_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// What the store keeps as the text of an object.
Json object_of(const std::string& text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json::object();
}

bool is_plain(char c) { return c >= ' ' && c != '"' && c != '\\' && c != 0x7F; }

}  // namespace

Json job_json(const JobRow& row) {
  return {{"id", row.id},
          {"name", row.name},
          {"user", row.user},
          {"queue", row.queue},
          {"engine", row.engine},
          {"priority", row.priority},
          {"state", name_of(row.state)},
          {"reason", row.reason},
          {"pinned", row.pinned},
          {"attempt", row.attempt},
          {"instances", row.instances},
          {"exit_code", value_or_null(row.exit_code)},
          {"progress", value_or_null(row.progress)},
          {"eta", time_or_null(row.eta.value_or(0))},
          {"tags", object_of(row.tags)},
          {"submitted", time_text(row.submitted)},
          {"started", time_or_null(row.started)},
          {"ended", time_or_null(row.ended)}};
}

Json attempt_json(const AttemptRow& row) {
  return {{"number", row.number},
          {"state", row.state},
          {"exit_code", value_or_null(row.exit_code)},
          {"failure", row.failure},
          {"instances", row.instances},
          {"created", time_text(row.created)},
          {"started", time_or_null(row.started)},
          {"ended", time_or_null(row.ended)}};
}

Json task_json(const TaskRow& row) {
  return {{"name", row.name},
          {"host", row.host},
          {"state", row.state},
          {"exit_code", value_or_null(row.exit_code)},
          {"restarts", row.restarts}};
}

Json event_json(const EventRow& row) {
  return {{"id", row.id},
          {"time", time_text(row.time)},
          {"job", row.job},
          {"kind", row.kind},
          {"data", object_of(row.data)}};
}

Json metric_json(const MetricRow& row) {
  return {{"id", row.id},
          {"name", row.name},
          {"step", row.step},
          {"value", std::isfinite(row.value) ? Json(row.value) : Json(nullptr)},
          {"time", time_text(row.time)}};
}

Json token_json(const TokenRow& row) {
  return {{"id", row.id},
          {"user", row.user},
          {"role", name_of(row.role)},
          {"created", time_text(row.created)},
          {"expires", time_or_null(row.expires)}};
}

Json end_json(const JobRow& row) {
  return {{"state", name_of(row.state)},
          {"exit_code", value_or_null(row.exit_code)},
          {"reason", row.reason}};
}

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

void append_text(std::string& json, std::string_view text) {
  if (std::any_of(text.begin(), text.end(), [](char c) { return c < 0; })) {
    json += dumped(text);
    return;
  }
  json += '"';
  for (auto at = text.begin(); at != text.end();) {
    const auto end = std::find_if_not(at, text.end(), is_plain);
    json.append(at, end);
    at = end;
    if (at == text.end()) break;
    if (*at == '\n')
      json += "\\n";
    else
      fmt::format_to(std::back_inserter(json), "\\u{:04x}", static_cast<unsigned>(*at));
    ++at;
  }
  json += '"';
}

}  // namespace cohort::service

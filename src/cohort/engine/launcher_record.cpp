#include "cohort/engine/launcher_record.h"

#include "cohort/base/error.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/launch/control/control_client.h"
#include "cohort/launch/record/job_record.h"

namespace cohort::engine {
namespace {

using nlohmann::ordered_json;

constexpr std::chrono::seconds kAnswerTime{2};
constexpr int kMostNumber = 1'000'000'000;
constexpr int kDeepest = 16;  // a record has 4 levels; one with very many would exhaust the stack

}  // namespace

ordered_json parse_record(std::string_view text) {
  bool too_deep = false;
  const auto watch = [&](int depth, ordered_json::parse_event_t, ordered_json&) {
    too_deep = too_deep || depth > kDeepest;
    return !too_deep;
  };
  auto json = ordered_json::parse(text, watch, /*allow_exceptions=*/false);
  if (too_deep || !json.is_object()) return nullptr;
  return json;
}

ordered_json read_run_record(const std::filesystem::path& output) {
  return parse_record(read_own_file(output / launch::OutputFolder::kRecord,
                                    launch::OutputFolder::kMostRecordBytes));
}

ordered_json read_launcher_record(const AttemptFolder& folder) {
  const std::filesystem::path path = folder.run() / launch::OutputFolder::kRecord;
  if (std::error_code code; !std::filesystem::exists(path, code)) return nullptr;
  try {
    return read_run_record(folder.run());
  } catch (const Error&) {  // removed since, or no file of this user's
    return nullptr;
  }
}

ordered_json live_launcher_record(ordered_json record) {
  const std::string socket = record_text(record, "control");
  if (socket.empty()) return record;
  try {
    ordered_json answer = parse_record(
        launch::ask_launcher(socket, R"({"command": "status"})", Deadline::after(kAnswerTime)));
    const auto status = answer.find("status");
    if (status != answer.end() && status->is_object()) return std::move(*status);
  } catch (const Error&) {  // it ends just now, or is busy
  }
  return record;
}

std::string record_text(const ordered_json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<int> record_number(const ordered_json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_integer() || *found < -kMostNumber ||
      *found > kMostNumber)
    return std::nullopt;
  return found->get<int>();
}

const ordered_json& record_list(const ordered_json& json, const char* key) {
  static const ordered_json kNone = ordered_json::array();
  const auto found = json.find(key);
  return found != json.end() && found->is_array() ? *found : kNone;
}

std::string record_task(const ordered_json& task) {
  return fmt::format("{}:{}", record_text(task, "type"), record_number(task, "index").value_or(0));
}

}  // namespace cohort::engine

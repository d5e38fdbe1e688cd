#include "cohort/tools/job_connection.h"

#include "cohort/base/error.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/base/text.h"
#include "cohort/launch/control/control_client.h"
#include "cohort/launch/process/leftovers.h"
#include "cohort/launch/record/job_record.h"

namespace cohort::tools {
namespace {

using nlohmann::ordered_json;

ordered_json read_record(const std::filesystem::path& output) {
  const auto path = output / launch::OutputFolder::kRecord;
  require_own_folder(output);
  auto record = ordered_json::parse(read_own_file(path, launch::OutputFolder::kMostRecordBytes),
                                    nullptr, /*allow_exceptions=*/false);
  if (!record.is_object() || !record.contains("job") || !record.contains("state"))
    throw InvalidInput(fmt::format("'{}' is not the record of a job", path.string()),
                       {.advice = "Name the output folder of a job."});
  return record;
}

std::string text_of(const ordered_json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_string() ? found->get<std::string>() : "";
}

ordered_json ask(const std::string& socket, const ordered_json& what, Deadline deadline) {
  auto answer = ordered_json::parse(launch::ask_launcher(socket, what.dump(), deadline), nullptr,
                                    /*allow_exceptions=*/false);
  if (!answer.is_object() || !answer.contains("ok"))
    throw PeerError(fmt::format("what answers at '{}' is not the launcher of a job", socket));
  return answer;
}

}  // namespace

KnownJob look_at_job(const std::filesystem::path& output, Deadline deadline) {
  KnownJob job{.record = read_record(output)};
  const std::string socket = text_of(job.record, "control");
  const bool has_ended = !text_of(job.record, "ended").empty();
  if (socket.empty() || has_ended) return job;
  try {
    const ordered_json answer = ask(socket, {{"command", "status"}}, deadline);
    if (!answer.contains("status")) throw PeerError("what answers is not the launcher of a job");
    if (text_of(answer.at("status"), "job") != text_of(job.record, "job")) return job;
    job.record = answer.at("status");
    job.launcher_answers = true;
  } catch (const PeerError&) {  // gone meanwhile, or killed: the record is what there is
    job.record = read_record(output);
    if (text_of(job.record, "ended").empty())
      job.left_processes = launch::count_leftovers(text_of(job.record, "job"));
  } catch (const Error& error) {  // there is one, and it does not talk to us
    job.record = read_record(output);
    job.trouble = error.message();
  }
  return job;
}

ordered_json request(const std::filesystem::path& output, const ordered_json& what,
                     Deadline deadline) {
  const ordered_json record = read_record(output);
  const std::string job = escape_controls(text_of(record, "job"));
  if (!text_of(record, "ended").empty())
    throw InvalidInput(
        fmt::format("job {} has ended ({})", job, escape_controls(text_of(record, "state"))));
  ordered_json answer;
  try {
    answer = ask(text_of(record, "control"), what, deadline);
  } catch (const PeerError& error) {
    throw InvalidInput(fmt::format("the launcher of job {} is gone: {}", job, error.message()),
                       {.advice = "See: cohort status " + output.string()});
  }
  if (answer.at("ok") != true) throw InvalidInput(escape_controls(text_of(answer, "message")));
  return answer;
}

}  // namespace cohort::tools

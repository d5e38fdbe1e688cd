#include "cohort/engine/attached_engine.h"

#include "cohort/base/error.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/base/process/process.h"
#include "cohort/base/text.h"
#include "cohort/engine/attempt_folder.h"
#include "cohort/engine/launcher_record.h"
#include "cohort/launch/record/job_record.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;

nlohmann::ordered_json record_in(const fs::path& output) {
  const auto refuse = [&](const std::string& why) {
    throw InvalidInput(
        fmt::format("no run of 'cohort run' can be shown from '{}': {}", output.string(), why),
        {.advice = "Name its output folder, which it prints when it starts."});
  };
  if (output.empty()) refuse("output is not set");
  const fs::path path = output / launch::OutputFolder::kRecord;
  if (std::error_code code; !fs::exists(path, code)) refuse("it has no job.json");
  require_own_folder(output);
  auto record = read_run_record(output);
  if (record.is_null() || !record_number(record, "launcher_pid"))
    refuse("its job.json is not the record of a job");
  return record;
}

}  // namespace

void AttachedEngine::check(const jobspec::ResolvedJob& job, const fs::path&) const {
  record_in(job.spec.output);
}

void AttachedEngine::submit(const AttemptRequest& request) {
  const AttemptFolder folder{request.folder};
  if (claimed_by(folder)) return;
  const fs::path output = request.job.spec.output;
  const auto record = record_in(output);
  if (request.resume)
    throw InvalidInput(
        fmt::format("the run in '{}' was started without the service", output.string()),
        {.advice = fmt::format("Go on with it by: cohort resume {}", output.string())});
  std::error_code code;
  fs::create_directory_symlink(output, folder.run(), code);
  if (code && code != std::errc::file_exists)
    throw SystemError(fmt::format("cannot make the link '{}'", folder.run().string()),
                      code.value());
  claim_attempt(folder, process_identity(*record_number(record, "launcher_pid")));
}

}  // namespace cohort::engine

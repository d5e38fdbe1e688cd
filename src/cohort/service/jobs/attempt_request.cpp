#include "cohort/service/jobs/attempt_request.h"

#include <fmt/format.h>

#include <cerrno>

#include "cohort/base/error.h"
#include "cohort/base/files/owned_files.h"

namespace cohort::service {
namespace {

// A folder that the job names. Where it cannot be made for want of room, there may be some later;
// anything else stays as it is.
void make_named_output(const std::filesystem::path& output) {
  try {
    make_own_folder(output);
  } catch (const SystemError& error) {
    const int code = error.code();
    if (code == ENOSPC || code == EDQUOT || code == ENOMEM || code == EMFILE || code == ENFILE ||
        code == EIO || code == EAGAIN)
      throw;
    throw InvalidInput(error.message(), {.advice = "Choose another output folder."});
  }
}

}  // namespace

engine::AttemptRequest attempt_request(const LiveJob& live, const RunFolders& folders) {
  engine::AttemptRequest request;
  request.id = fmt::format("{}.{}", live.row.id, live.row.attempt);
  request.folder = folders.attempt(live.row.id, live.row.attempt);
  request.output = live.job.spec.output.empty() ? folders.output(live.row.id)
                                                : std::filesystem::path(live.job.spec.output);
  request.model = folders.model(live.row.id);
  request.job = live.job;
  request.instances = live.row.instances;
  request.gpu_indices = gpu_indices(live.attempt);
  request.resume = live.row.resume;
  return request;
}

void make_folders(const engine::AttemptRequest& request) {
  for (const auto& made : {request.folder, request.model}) make_own_folder(made);
  if (request.job.spec.output.empty())
    make_own_folder(request.output);
  else
    make_named_output(request.output);
}

}  // namespace cohort::service

#include "cohort/engine/slurm/slurm_ending.h"

#include "cohort/base/error.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/base/text.h"

namespace cohort::engine {
namespace {

constexpr std::size_t kMostLog = std::size_t{16} << 20;
constexpr std::size_t kLastWords = 400;

struct SlurmEnd {
  AttemptState state;
  std::string failure;
};

// How Slurm ended a job; nothing where the job ended by itself.
std::optional<SlurmEnd> slurms_own_end(const SlurmSight& sight) {
  const std::string& state = sight.job->state;
  const std::string job = fmt::format("Slurm job {}", sight.id);
  if (state == "CANCELLED")
    return SlurmEnd{AttemptState::stopped,
                    fmt::format("{} was cancelled in Slurm, not by Cohort", job)};
  if (state == "TIMEOUT" || state == "DEADLINE")
    return SlurmEnd{AttemptState::lost, fmt::format("{}: its time in Slurm was over", job)};
  if (state == "NODE_FAIL" || state == "BOOT_FAIL")
    return SlurmEnd{AttemptState::lost,
                    fmt::format("{}: a node of {} failed", job,
                                sight.job->nodes.empty() ? "the job" : sight.job->nodes)};
  if (state == "PREEMPTED")
    return SlurmEnd{AttemptState::lost, fmt::format("{} was preempted by another job", job)};
  if (state == "OUT_OF_MEMORY")
    return SlurmEnd{AttemptState::failed,
                    fmt::format("{} needed more memory than it had asked for", job)};
  return std::nullopt;
}

// Slurm has ended the job, or forgotten it.
void judge_ended(const SlurmSight& sight, bool settled, AttemptStatus& status) {
  const AttemptState written = status.state;
  if (written == AttemptState::succeeded) return;
  if (sight.stop_asked) {
    status.state = AttemptState::stopped;
    return;
  }
  const auto end = sight.job ? slurms_own_end(sight) : std::nullopt;
  if (!has_ended(written) && !settled) {
    status.state = written == AttemptState::unknown ? AttemptState::starting : written;
    return;
  }
  if (end) {
    status.state = end->state;
    status.failure = end->failure;
    return;
  }
  if (written == AttemptState::failed) return;
  status.state = AttemptState::lost;
  if (written == AttemptState::stopped) {
    status.failure = fmt::format(
        "Slurm job {} was told to end: its time in Slurm was nearly over, or a person sent TERM",
        sight.id);
  } else if (!sight.job) {
    status.failure = fmt::format("Slurm does not know job {} any more", sight.id);
  } else if (written == AttemptState::unknown) {
    status.state = AttemptState::failed;
    status.failure = fmt::format("Slurm job {} ended ({}) before its launcher began", sight.id,
                                 sight.job->state);
  } else {
    status.failure =
        fmt::format("Slurm job {} ended ({}): its launcher died", sight.id, sight.job->state);
  }
}

}  // namespace

void judge(const SlurmSight& sight, bool settled, AttemptStatus& status) {
  if (status.state == AttemptState::succeeded) return;
  if (status.state == AttemptState::stopped && sight.stop_asked) return;
  if (sight.answered && (!sight.job || sight.job->phase == SlurmPhase::ended))
    return judge_ended(sight, settled, status);
  // It runs, waits, or comes back.
  const bool waits = sight.answered && sight.job->phase == SlurmPhase::pending;
  if (waits) {
    const bool again = status.state != AttemptState::unknown;
    status = {.state = AttemptState::starting,
              .started = status.started,
              .tasks = std::move(status.tasks)};
    status.waiting = fmt::format("Slurm job {} waits{}: {}", sight.id,
                                 again ? " to go on from its checkpoint" : "", sight.job->reason);
  } else if (status.state == AttemptState::unknown) {
    status.state = AttemptState::starting;
  } else if (has_ended(status.state)) {
    status.state = AttemptState::stopping;
    status.failure.clear();
  }
  if (sight.stop_asked) status.state = AttemptState::stopping;
}

std::string last_words(const AttemptFolder& folder) {
  std::error_code code;
  if (!std::filesystem::exists(folder.supervisor_log(), code)) return "";
  try {
    const std::string all = read_own_file(folder.supervisor_log(), kMostLog);
    const std::string_view text = trim(all);
    if (text.empty()) return "";
    return ": " +
           escape_controls(text.substr(text.size() < kLastWords ? 0 : text.size() - kLastWords));
  } catch (const Error&) {  // removed since, or enormous
    return "";
  }
}

}  // namespace cohort::engine

#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "cohort/engine/engine.h"

// What the engines of this machine keep of an attempt, all of it in the attempt's folder.
namespace cohort::engine {

struct AttemptFolder {
  std::filesystem::path path;

  std::filesystem::path request() const { return path / "attempt.json"; }  // 0600
  std::filesystem::path claim() const { return path / "claim"; }           // who runs it
  std::filesystem::path stop_mark() const { return path / "stop"; }        // it is to end
  std::filesystem::path failure() const { return path / "failure.json"; }  // it never ran
  std::filesystem::path supervisor_log() const { return path / "supervisor.log"; }
  std::filesystem::path run() const { return path / "run"; }          // the launcher's output
  std::filesystem::path host_file() const { return path / "hosts"; }  // mpirun's
  std::filesystem::path ranks() const { return path / "ranks"; }      // of MPI: their logs
  std::filesystem::path rank_states() const { return ranks() / "ranks.json"; }
  std::filesystem::path slurm_script() const { return path / "slurm.sh"; }
  std::filesystem::path slurm_job() const { return path / "slurm-job"; }      // sbatch's answer
  std::filesystem::path node_script() const { return path / "slurm-nodes"; }  // elastic jobs
};

// The variable that holds the request, as JSON, for tasks on other hosts.
inline constexpr const char* kTaskVariable = "COHORT_TASK";

// The request as JSON without its folder, and back. The second throws InvalidInput for a text that
// this version did not write.
std::string to_json(const AttemptRequest& request);
AttemptRequest attempt_from_json(std::string_view text, const std::filesystem::path& folder);

void write_request(const AttemptRequest& request);  // makes the folder; throws SystemError
AttemptRequest read_request(const AttemptFolder& folder);

// The one process that may run the attempt is the one that made the claim: true for one caller,
// ever, in whatever process; what it wrote is on disk then. Throws SystemError.
bool claim_attempt(const AttemptFolder& folder, const std::string& owner);
// Who made it, as said then: of this machine the identity (base/process/process.h) of a process.
// Nothing: none did.
std::optional<std::string> claimed_by(const AttemptFolder& folder);

// Whether that process still is. After a restart of the machine it is not; where it runs in another
// pid namespace, the lock of the launcher's folder tells.
bool supervisor_lives(const AttemptFolder& folder, const std::string& identity);

// An attempt that ended before its job ran, and why.
struct EarlyEnd {
  std::string failure;
  std::string ended;
};
void write_early_end(const AttemptFolder& folder, const std::string& failure);
std::optional<EarlyEnd> read_early_end(const AttemptFolder& folder);

}  // namespace cohort::engine

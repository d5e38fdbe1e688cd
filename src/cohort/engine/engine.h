#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/jobspec/resolved_job.h"

// The seam between the service and whatever runs jobs. The service talks to nothing else.
namespace cohort::engine {

// One try to run a job. The folder belongs to the attempt and holds all that an engine keeps of it:
// the same id always has the same folder, so an engine that is made anew finds its attempts again.
struct AttemptRequest {
  std::string id;                // "JOBID.1"
  std::filesystem::path folder;  // ROOT/jobs/JOBID/attempts/1
  std::filesystem::path output;  // COHORT_OUTPUT: results, of all attempts of the job
  std::filesystem::path model;   // SM_MODEL_DIR
  std::filesystem::path source;  // the unpacked source; empty: none
  jobspec::ResolvedJob job;
  int instances = 1;             // given now; an elastic job may get fewer than it can use
  std::vector<int> gpu_indices;  // of this machine, for the local engine
  bool resume = false;           // go on from the job's checkpoints
};

// unknown: the engine never started it. lost: it was started and left no result (a machine that
// crashed, a folder that was removed).
enum class AttemptState { unknown, starting, running, stopping, succeeded, failed, stopped, lost };

bool has_ended(AttemptState state);
std::string_view name_of(AttemptState state);

struct TaskStatus {
  std::string name;  // "worker:1"
  std::string host;
  std::string state;
  std::optional<int> exit_code;
  int restarts = 0;
  std::string started;  // UTC; "": not yet
  std::string ended;
};

struct AttemptStatus {
  AttemptState state = AttemptState::unknown;
  std::optional<int> exit_code;
  std::string failure;  // the root cause, a sentence; "" while none is known
  std::string waiting;  // what it waits for while nothing of it runs, a sentence; "": nothing
  std::string started;
  std::string ended;
  std::optional<int> workers;  // members now, of an elastic job
  std::vector<TaskStatus> tasks;
};

// Bytes of a task's log. `next` is where to go on; `end`: nothing follows, now or later.
struct LogChunk {
  std::string bytes;
  std::uint64_t next = 0;
  bool end = false;
};

struct Abilities {
  bool scales = false;         // scale() works on elastic jobs
  bool needs_queue = false;    // the service decides when an attempt starts, and where
  bool images = false;         // runs containers
  bool sizes_unknown = false;  // machines of any size: a scheduler says what is too large
};

// Threads: every method may be called from any thread, also at once. None blocks for longer than a
// question to a live launcher takes (2 s at most), but for what asks a scheduler: submit(), stop()
// and scale() of an engine that hands jobs on, 10 s at most.
// Failure: InvalidInput for what the engine refuses; SystemError where the machine fails. An
// attempt's own failure is a status, never an exception.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual std::string_view name() const = 0;
  virtual Abilities abilities() const = 0;

  // Says what would keep this job from running here, before anything is started. `source`: where its
  // packed folder lies unpacked on this machine; "": it has none. For a job with an image a container
  // tool is asked, which may take 10 s.
  virtual void check(const jobspec::ResolvedJob& job,
                     const std::filesystem::path& source) const = 0;

  // Starts the attempt exactly once, however often and from however many processes it is called
  // with the same id, and whenever the caller is killed. Returns when the attempt is on its way.
  // The attempt outlives the caller.
  virtual void submit(const AttemptRequest& request) = 0;

  virtual AttemptStatus observe(const std::filesystem::path& folder) const = 0;

  // While the attempt runs and after. An unknown task: an empty chunk, with `end` once the attempt
  // has ended.
  virtual LogChunk read_log(const std::filesystem::path& folder, std::string_view task,
                            std::uint64_t offset, std::size_t most_bytes) const = 0;

  // Asks the attempt to end: TERM, KILL after its grace. Ended ones are left alone.
  virtual void stop(const std::filesystem::path& folder) = 0;

  // Another number of workers for an elastic attempt that runs. Throws InvalidInput otherwise.
  virtual void scale(const std::filesystem::path& folder, int workers) = 0;

  // The folders below `jobs` (ROOT/jobs) whose attempts were started and have not ended.
  virtual std::vector<std::filesystem::path> list(const std::filesystem::path& jobs) const = 0;
};

}  // namespace cohort::engine

#pragma once

#include <chrono>
#include <map>
#include <mutex>

#include "cohort/engine/attempt_folder.h"
#include "cohort/engine/engine.h"
#include "cohort/engine/slurm/slurm_view.h"

namespace cohort::engine {

// Hands attempts to Slurm: sbatch starts a script that runs the attempt's supervisor
// (slurm_attempt.h) on the first node of the allocation; that is the launcher, which starts tasks
// on the other nodes by srun. The service, the nodes and `cohort` share a file system.
//
// Exactly once: a submission that was cut off is looked for by its name before another one is made,
// and of two Slurm jobs of one attempt the first to make the claim runs it; the other ends at once.
//
// What is known of an attempt is what the launcher writes into its folder, and Slurm's word on the
// job (SlurmView). Slurm's word decides whether something still runs or comes back. While Slurm
// does not answer, nothing has ended: a lost engine is not a lost job.
//
// Threads: any. submit(), stop() and scale() wait for Slurm's commands, at most 10 s.
class SlurmEngine : public Engine {
 public:
  struct Options {
    std::filesystem::path cohort = {};       // as on the nodes; empty: the program that runs now
    std::chrono::milliseconds period{1000};  // between two questions to Slurm
    std::chrono::milliseconds settle_time{3000};  // a shared file system may show files later
  };

  SlurmEngine() : SlurmEngine(Options{}) {}
  explicit SlurmEngine(Options options);

  std::string_view name() const override { return "slurm"; }
  Abilities abilities() const override { return {.scales = true, .sizes_unknown = true}; }
  void check(const jobspec::ResolvedJob& job, const std::filesystem::path& source) const override;
  void submit(const AttemptRequest& request) override;
  AttemptStatus observe(const std::filesystem::path& folder) const override;
  LogChunk read_log(const std::filesystem::path& folder, std::string_view task,
                    std::uint64_t offset, std::size_t most_bytes) const override;
  // TERM for the launcher, which ends the tasks; one that waits is cancelled.
  void stop(const std::filesystem::path& folder) override;
  // Within the nodes that the job has.
  void scale(const std::filesystem::path& folder, int workers) override;
  std::vector<std::filesystem::path> list(const std::filesystem::path& jobs) const override;

 private:
  using Clock = SlurmView::Clock;

  // An attempt whose Slurm job is known, until it has ended.
  struct Watched {
    SlurmId id = 0;
    bool has_claim = false;
    Clock::time_point since;                 // answers from then on count
    std::optional<Clock::time_point> ended;  // Slurm has said so first then
  };

  std::optional<Watched> watched(const std::filesystem::path& folder) const;
  bool has_settled(const std::filesystem::path& folder, SlurmId id) const;
  AttemptStatus status_of(const AttemptFolder& folder, const Watched& watched) const;
  void cancel(SlurmId id) const;

  Options options_;
  mutable SlurmView view_;
  mutable std::mutex mutex_;
  mutable std::map<std::filesystem::path, Watched> seen_;
};

}  // namespace cohort::engine

#pragma once

#include "cohort/engine/local_engine.h"

namespace cohort::engine {

// Shows runs of `cohort run` that this user started without the service: it starts nothing. An
// attempt is "submitted" by tying its folder to the run's output folder (`output` of the
// description); from then on the run is observed, stopped and scaled as one of the local engine,
// through its launcher's record and socket. The run does not depend on it, and its folder is left
// alone when the job is deleted.
class AttachedEngine : public LocalEngine {
 public:
  static constexpr std::string_view kName = "attached";

  std::string_view name() const override { return kName; }
  Abilities abilities() const override { return {.scales = true, .sizes_unknown = true}; }
  // The output folder must be this user's own and hold a launcher's record.
  void check(const jobspec::ResolvedJob& job, const std::filesystem::path& source) const override;
  // A run that is to go on from its checkpoints is refused: only its own launcher can do that.
  void submit(const AttemptRequest& request) override;
};

}  // namespace cohort::engine

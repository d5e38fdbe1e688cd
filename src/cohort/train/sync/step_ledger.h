#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "cohort/membership/ledger/ledger.h"

namespace cohort::train {

// The ledger of an elastic job's committed steps. Replica 0 of the view writes it; every replica
// keeps the last record, which a new replica 0 writes where its predecessor could not.
// Confined to the replica's thread. Failure: SystemError from the disk.
class StepLedger {
 public:
  // `output`: the job's folder; empty: nothing is written.
  explicit StepLedger(std::filesystem::path output) : output_(std::move(output)) {}

  // What the ledger is about, before anything is committed.
  void set_plan(const membership::LedgerPlan& plan) { plan_ = plan; }
  // Training begins, or goes on from a checkpoint, after `step` steps, in view `view`: what the
  // ledger has of later ones is done again. `writes`: this replica is the first.
  void begin(std::int64_t step, std::uint64_t view, bool writes);
  void close();  // another replica writes now
  void open();   // this replica is the first from now on
  void append(membership::LedgerRecord record);
  void sync();

  nlohmann::json last_record() const;  // for a member that copies the state
  void set_last_record(const nlohmann::json& record, bool writes);

 private:
  std::filesystem::path output_;
  std::optional<membership::LedgerPlan> plan_;
  std::optional<membership::LedgerWriter> writer_;  // on replica 0
  std::optional<membership::LedgerRecord> last_;
};

}  // namespace cohort::train

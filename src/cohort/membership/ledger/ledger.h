#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/unique_fd.h"

// The data ledger of a training: which samples entered which committed update, OUTPUT/ledger.
// docs/formats.md has the bytes: records of one size, each with a checksum, so a torn tail is
// noticed and cut, and the end is found without reading the rest.
namespace cohort::membership {

// What all records of a ledger are about: how an epoch's samples are numbered and cut.
struct LedgerPlan {
  std::int64_t samples = 0;  // in an epoch
  std::int64_t batch = 0;    // of a step
  int shards = 1;            // of a step
  std::uint64_t seed = 0;
  bool shuffle = true;
  // Fewer than all samples need: the rest of an epoch is unused. 0: as many as they need.
  std::int64_t steps_per_epoch = 0;
  std::int64_t used_samples() const;  // of an epoch
  bool operator==(const LedgerPlan&) const = default;
};

// One committed update. Samples are named by their place in the epoch's order (with `shuffle` a
// permutation that seed and epoch decide): the step took [first, first + sum of counts), shard
// after shard.
struct LedgerRecord {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  // of the whole training
  std::int64_t first = 0;
  std::uint64_t view = 0;
  std::vector<std::uint32_t> counts;  // samples of each shard, as the gradient sum had them
  std::vector<std::uint16_t> owners;  // the rank, in `view`, that computed each shard
  bool operator==(const LedgerRecord&) const = default;
};

// Appends to a ledger: one write() a record, which a killed process has made or not. A training
// that goes on from an earlier step says so first (rewind): what stood there from that step on was
// lost with the job's memory, and is done again.
//
// A chief that was shut out may append a last record behind its successor's: it does no harm, the
// later view counts.
//
// Threads: confined to one. Failure: SystemError; InvalidInput when the file is of another plan or
// no ledger, or a record does not fit the plan.
class LedgerWriter {
 public:
  // Appends to the ledger at `path`, or begins one. A torn tail is cut off.
  LedgerWriter(const std::filesystem::path& path, const LedgerPlan& plan);

  void append(const LedgerRecord& record);
  void rewind(std::int64_t step);  // the next record is of this step
  void sync();                     // to the disk
  // The last step that has a record, before the one to which rewind() went; nothing in a new
  // ledger. What a new chief needs to know.
  std::optional<std::int64_t> last_step() const { return last_step_; }
  std::uint64_t last_view() const { return last_view_; }  // the latest that made it; 0: unknown
  // Whether this update is missing: neither it nor a later one, nor the same step of a later view,
  // is there.
  bool lacks(const LedgerRecord& record) const;

 private:
  void begin_or_check();
  void cut_torn_tail();
  void find_last_step(std::int64_t records);
  void note(std::int64_t step, std::uint64_t view);
  std::string read_at(std::int64_t place, std::size_t bytes) const;
  void write(const std::string& bytes);
  [[noreturn]] void fail(const char* action) const;

  std::filesystem::path path_;
  UniqueFd file_;
  LedgerPlan plan_;
  std::optional<std::int64_t> last_step_;
  std::uint64_t last_view_ = 0;
  std::string buffer_;
};

// A whole ledger, read.
struct Ledger {
  LedgerPlan plan;
  struct Entry {
    LedgerRecord record;
    int generation = 0;  // how often training had gone on from a checkpoint before
  };
  std::vector<Entry> entries;         // as they were written
  std::vector<std::int64_t> rewinds;  // the steps from which training went on
  bool torn = false;                  // the last record was not whole
  std::size_t unreadable = 0;         // whole records at the end that do not match their checksum
};
// InvalidInput names the offset of a damaged record that others follow; SystemError.
Ledger read_ledger(const std::filesystem::path& path);

// What a ledger proves. An update counts where nothing later took its place: training that went on
// from this step or an earlier one, or a later view's record of such a step (its maker died before
// another member had it). Samples are places in the epoch's order; that the order is a permutation of
// the data set is how it is made, and not a matter of the ledger.
struct LedgerReport {
  struct Epoch {
    std::int64_t epoch = 0;
    std::int64_t steps = 0;
    std::int64_t samples = 0;   // that entered exactly one committed update
    std::int64_t missing = 0;   // that entered none, though the epoch has ended
    std::int64_t repeated = 0;  // that entered more than one
    bool ended = false;
  };
  std::vector<Epoch> epochs;
  std::vector<std::int64_t> redone;   // steps with more than one record
  std::vector<std::string> problems;  // sentences; empty: every sample of every ended epoch entered
                                      // exactly one committed update
  std::uint64_t views = 0;
};
LedgerReport verify(const Ledger& ledger);

}  // namespace cohort::membership

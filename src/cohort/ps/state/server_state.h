#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cohort/ps/model/model_spec.h"
#include "cohort/ps/model/placement.h"
#include "cohort/ps/state/segment.h"
#include "cohort/ps/state/server_share.h"
#include "cohort/ps/state/server_tables.h"
#include "cohort/ps/state/update_record.h"
#include "cohort/ps/table/memory_limit.h"
#include "cohort/ps/table/sparse_table.h"

namespace cohort::ps {

// All of a server's share of the model, and the only way to change it. Knows no network and no
// policy.
//
// An update is made in two steps: prepare() writes the new version beside the one that counts,
// publish() lets it count. In between the caller makes it durable. Records made again in the same
// order from the same beginning give the same bits.
//
// Threads: confined to one; SegmentReaders read at any time.
// Failure: InvalidInput for a spec or record that does not fit; MemoryLimit (an
// InvalidInput) where the state would not fit under the limit; both leave it unchanged.
class ServerState {
 public:
  struct Options {
    int server = 0;
    int servers = 1;
    std::uint64_t memory_limit = 0;  // bytes of values, slots and tables; 0: none
  };

  // A new state for `spec`, values zero, slots as their rules begin, in `file` (a memory file).
  // Versions and ledgers start at `first_step`: a training that is resumed has that many behind it.
  static std::unique_ptr<ServerState> create(int file, const ModelSpec& spec,
                                             std::uint64_t first_step, Options options);
  // The state that a server before us left in `file`; nothing where there is none.
  static std::unique_ptr<ServerState> open(int file, Options options);

  const Options& options() const { return options_; }
  const ModelSpec& spec() const { return spec_; }
  const std::string& spec_text() const { return text_; }
  Segment& segment() { return *segment_; }
  const Segment& segment() const { return *segment_; }
  // The slices of this server by local number; slice_numbers()[i] is i's number in the placement.
  std::span<const Slice> slices() const { return share_.slices; }
  std::span<const int> slice_numbers() const { return share_.numbers; }
  int tables() const { return tables_.count(); }
  SparseTable& table(int table) { return tables_.at(table); }
  const SparseTable& table(int table) const { return tables_.at(table); }

  // Before mark_initialised(): values and slots of a slice, one array after the other, and how many
  // updates are in them. `bytes` must be state_bytes(slice) long.
  void set_slice(int slice, std::uint64_t updates, std::span<const std::byte> bytes);
  std::uint64_t state_bytes(int slice) const;
  // The same, to be read: appends to `out`.
  void get_slice(int slice, std::uint64_t& updates, std::string& out) const;
  void mark_initialised();

  std::uint64_t version(const UpdateRecord& record) const;  // of its target
  // False when the gradient was not finite; the update is still only prepared then, and either
  // published or abandoned like any other.
  bool prepare(const UpdateRecord& record);
  void publish(const UpdateRecord& record);
  void abandon(const UpdateRecord& record);

 private:
  // Throws MemoryLimit when dense state is over the limit.
  ServerState(Options options, ModelSpec spec, std::string text);
  bool prepare_slice(const UpdateRecord& record);
  void fill_slots(int slice);

  const Options options_;
  const ModelSpec spec_;
  const std::string text_;
  const ServerShare share_;
  std::unique_ptr<Segment> segment_;
  ServerTables tables_;  // in the segment, which is destroyed after it
};

}  // namespace cohort::ps

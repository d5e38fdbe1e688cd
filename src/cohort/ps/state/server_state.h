#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/ps/model/model_spec.h"
#include "cohort/ps/model/placement.h"
#include "cohort/ps/state/memory_limit.h"
#include "cohort/ps/state/segment.h"
#include "cohort/ps/table/sparse_table.h"

namespace cohort::ps {

// What one update contains: pushes of these workers, up to these sequences.
using LedgerEntries = std::vector<std::pair<int, std::uint64_t>>;

// One update of one slice or table of a server, with all that is needed to make it again elsewhere:
// what a log writes and a replica receives. A view: the payload is the caller's.
struct UpdateRecord {
  enum class Kind : std::uint8_t { dense, sparse };
  Kind kind = Kind::dense;
  int target = 0;                      // local slice or table number
  std::uint64_t version = 0;           // that it makes
  std::vector<double> learning_rates;  // by group
  LedgerEntries ledger;
  // dense: the gradient, averaged; empty: version and ledger advance, nothing else changes. sparse:
  // RowGradients::encode().
  std::span<const std::byte> payload;
};

// All of a server's share of the model, and the only way to change it. Knows no network and no
// policy.
//
// An update is made in two steps: prepare() writes the new version beside the one that counts,
// publish() lets it count. In between the caller makes it durable. Records made again in the same
// order from the same beginning give the same bits.
//
// Threads: confined to one; SegmentReaders read at any time.
// Failure: InvalidInput for a spec, record or image that does not fit; MemoryLimit (an
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
  ~ServerState();

  const ModelSpec& spec() const;
  const std::string& spec_text() const;
  Segment& segment();
  // The slices of this server by local number; slice_numbers()[i] is i's number in the placement.
  std::span<const Slice> slices() const;
  std::span<const int> slice_numbers() const;
  int tables() const;
  SparseTable& table(int table);

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

  // The whole state as a row of pieces (each at most a few MiB, whole in itself), enough to make an
  // equal one: versions and ledgers included. Consistent as long as nothing changes it meanwhile.
  void write_image(const std::function<void(std::string_view piece)>& write) const;
  // Makes a state in `file` from the pieces, in order; `read` gives nothing after the last.
  static std::unique_ptr<ServerState> from_image(
      int file, Options options, const std::function<std::optional<std::string>()>& read);

 private:
  ServerState();
  bool prepare_slice(const UpdateRecord& record);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::ps

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/base/crypto/secret.h"
#include "cohort/cluster/address.h"
#include "cohort/ps/wire/messages.h"

// What a Client (client.h) is given and gives back. Values.
namespace cohort::ps {

struct ClientOptions {
  int worker = 0;
  int workers = 1;
  bool chief = false;
  // How often this worker's process was started before, where a launcher counts that. A process
  // with a larger number takes the place of one with a smaller; of two with the same, the later
  // does.
  std::uint64_t incarnation = 0;
  std::vector<cluster::Address> servers;
  std::string job;
  std::optional<Secret> secret;
  bool tls = false;
  bool shared_memory = true;  // with servers on this host; false: TCP to all
  WireType wire = WireType::exact;
};

// Elements [offset, offset + elements) of a block, in the caller's memory.
struct BlockRun {
  int block = 0;
  std::uint64_t offset = 0;
  std::uint64_t elements = 0;
  std::byte* memory = nullptr;
};

// What the chief starts a training from, as it gives it to the servers.
struct InitialState {
  std::uint64_t first_step = 0;
  std::uint64_t updates = 0;  // of every parameter, so far
  // Fills `to` with elements [offset, offset + elements) of the block's values (slot -1) or of a
  // slot of its rule.
  std::function<void(int block, int slot, std::uint64_t offset, std::uint64_t elements,
                     std::byte* to)>
      read;
  std::vector<std::vector<std::string>> table_pieces;  // by table, of SparseTable::write_snapshot
};

// The same way back.
struct StateSink {
  std::function<void(int block, int slot, std::uint64_t offset, std::uint64_t elements,
                     std::uint64_t updates, const std::byte* from)>
      slice;
  std::function<void(int table, std::string_view piece)> table;
  // What came so far does not count: a server was lost, and everything comes again. May be empty
  // where repeated slices and pieces do no harm.
  std::function<void()> restart;
};

struct StepStart {
  std::uint64_t sequence = 1;          // steps of the whole training up to and with this one
  double weight = 1;                   // of this worker's samples among the step's
  std::vector<double> learning_rates;  // by group
};

struct StepOutcome {
  bool whole = false;  // see StepDone
  std::vector<double> tally;
  std::string stop;           // why a worker wants this round of training to end
  std::uint64_t dropped = 0;  // slices whose update went on without us
  // Sync: steps that every slice and table has; the next is this one + 1.
  std::uint64_t version = 0;
};

}  // namespace cohort::ps

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// What workers and servers say to each other: the control parts of Connection's messages
// (docs/formats.md). Slices go by their number in the placement. A worker's `sequence` of a step is
// the number of steps of the whole training up to and with it: the first step has sequence 1.
// Pure values and functions.
namespace cohort::ps {

constexpr std::uint32_t kProtocolVersion = 2;

enum class WireType : std::uint8_t { exact, f16, bf16 };  // of f32 gradients and values over TCP

// ---- from a worker

// The first message, or the second behind AskLocalName. On a Unix socket the file of the worker's
// region goes with it.
struct Hello {
  std::uint32_t version = kProtocolVersion;
  std::int32_t worker = 0;
  std::int32_t workers = 1;
  std::int32_t server = 0;  // whom it means to reach
  std::int32_t servers = 1;
  // Of the worker's process. A process replaces those with a smaller incarnation (which the
  // launcher counts), and those with the same one that came before it.
  std::uint64_t incarnation = 0;
  std::uint64_t process = 0;  // a random number
  bool chief = false;
  WireType wire = WireType::exact;
  bool operator==(const Hello&) const = default;
};
// The chief's, where the server has no model yet; then SetSlice for every slice, TablePiece,
// Commit.
struct Init {
  std::uint64_t first_step = 0;
  std::string spec;
  bool operator==(const Init&) const = default;
};
struct SetSlice {  // bulk: values, then each slot
  std::int32_t slice = 0;
  std::uint64_t updates = 0;
  bool operator==(const SetSlice&) const = default;
};
struct TablePiece {  // both ways. bulk: a piece of SparseTable::write_snapshot
  std::int32_t table = 0;
  bool operator==(const TablePiece&) const = default;
};
struct Commit {
  bool operator==(const Commit&) const = default;
};

// A step: StepBegin, then Push for every slice and RowsPush for every table of the server in any
// order, then StepEnd. The answers are Values for every slice, RowsDone for every table, StepDone.
struct StepBegin {
  std::uint64_t sequence = 0;
  double weight = 1;                   // of this worker's samples among the step's
  std::vector<double> learning_rates;  // by group; the chief's count
  bool operator==(const StepBegin&) const = default;
};
// bulk, unless it lies in the region: the partials of this worker's shards (ShardPlan::nodes of its
// run), one after the other.
struct Push {
  std::int32_t slice = 0;
  std::uint64_t sequence = 0;
  std::uint64_t base_version = 0;   // of the values that the gradient was computed from
  std::uint64_t region_offset = 0;  // where there is no bulk
  bool operator==(const Push&) const = default;
};
struct RowsPush {  // bulk: RowGradients::encode()
  std::int32_t table = 0;
  std::uint64_t sequence = 0;
  std::uint64_t base_version = 0;
  bool operator==(const RowsPush&) const = default;
};
struct StepEnd {
  std::uint64_t sequence = 0;
  std::vector<std::vector<double>> tally;  // a row for each of the worker's shards
  std::uint32_t round = 0;                 // which of the training's rounds; a stop ends one
  std::string stop;                        // why training should end; empty: it should not
  bool operator==(const StepEnd&) const = default;
};

// Values of every slice, and then PullDone, as soon as every expected worker has finished `clock`
// steps. `before`, unless 0: a slice whose newest version this is, is given as it was before it,
// where the server still has that.
struct Pull {
  std::uint64_t request = 0;
  std::uint64_t clock = 0;
  std::uint64_t before = 0;
  bool operator==(const Pull&) const = default;
};
// Rows for the step that has this sequence, as soon as the policy allows it that step. bulk: keys.
struct RowsPull {
  std::uint64_t request = 0;
  std::int32_t table = 0;
  std::uint64_t sequence = 0;
  bool operator==(const RowsPull&) const = default;
};
// A consistent copy of all: FreezeRequest to all servers, each of which answers Frozen and begins
// no push that it does not name there; then SnapshotRequest with the largest of them all, answered
// by SliceState and TablePiece for everything and SnapshotDone when exactly those pushes are in.
struct FreezeRequest {
  std::uint64_t request = 0;
  bool operator==(const FreezeRequest&) const = default;
};
struct SnapshotRequest {
  std::uint64_t request = 0;
  std::vector<std::uint64_t> sequences;  // by worker
  bool operator==(const SnapshotRequest&) const = default;
};
struct AskStats {
  std::uint64_t request = 0;
  bool operator==(const AskStats&) const = default;
};
struct Leave {  // this worker needs nothing more
  bool operator==(const Leave&) const = default;
};
// Over TCP, before Hello: where does a worker of the server's host connect? Answered by LocalName.
struct AskLocalName {
  bool operator==(const AskLocalName&) const = default;
};

// ---- from a server

// To the chief at once, to others when there is a model. On a Unix socket, where there is a model,
// the segment's file goes with it.
struct Welcome {
  bool initialised = false;
  std::string spec;            // of the model
  std::uint64_t finished = 0;  // all of this worker's pushes up to this sequence are in
  bool operator==(const Welcome&) const = default;
};
// bulk: values, unless the worker reads the segment.
struct Values {
  enum class Reason : std::uint8_t { applied, dropped_late, dropped_not_finite, pulled };
  std::int32_t slice = 0;
  std::uint64_t sequence = 0;  // of the push that this answers, or the Pull's request
  std::uint64_t version = 0;
  Reason reason = Reason::applied;
  bool operator==(const Values&) const = default;
};
struct RowsDone {
  std::int32_t table = 0;
  std::uint64_t sequence = 0;
  std::uint64_t version = 0;
  Values::Reason reason = Values::Reason::applied;
  bool operator==(const RowsDone&) const = default;
};
struct Rows {  // bulk: values
  std::uint64_t request = 0;
  std::uint64_t version = 0;
  bool operator==(const Rows&) const = default;
};
struct StepDone {
  std::uint64_t sequence = 0;
  // Server 0's: with `whole`, the sum of this step's rows over all shards in their order; else of
  // all rows of all steps so far.
  bool whole = false;
  std::vector<double> tally;
  std::string stop;
  bool operator==(const StepDone&) const = default;
};
struct PullDone {
  std::uint64_t request = 0;
  bool operator==(const PullDone&) const = default;
};
struct Frozen {
  std::uint64_t request = 0;
  std::vector<std::uint64_t> sequences;
  bool operator==(const Frozen&) const = default;
};
struct SliceState {  // bulk: values, then each slot
  std::uint64_t request = 0;
  std::int32_t slice = 0;
  std::uint64_t version = 0;
  std::uint64_t updates = 0;
  bool operator==(const SliceState&) const = default;
};
struct SnapshotDone {
  std::uint64_t request = 0;
  bool operator==(const SnapshotDone&) const = default;
};
struct Stats {
  std::uint64_t request = 0;
  std::string json;
  bool operator==(const Stats&) const = default;
};
// The worker's call fails with this. The connection stays, unless `fatal`.
struct Refused {
  bool fatal = true;
  std::string reason;
  std::string advice;
  bool operator==(const Refused&) const = default;
};

// The name of the server's Unix socket in the abstract namespace. Random, and another one in every
// process, so that no other can take it in advance or after the server's death. Empty: none.
struct LocalName {
  std::string name;
  bool operator==(const LocalName&) const = default;
};

using Message = std::variant<Hello, Init, SetSlice, TablePiece, Commit, StepBegin, Push, RowsPush,
                             StepEnd, Pull, RowsPull, FreezeRequest, SnapshotRequest, AskStats,
                             Leave, Welcome, Values, RowsDone, Rows, StepDone, PullDone, Frozen,
                             SliceState, SnapshotDone, Stats, Refused, AskLocalName, LocalName>;

// The first byte is the index in Message; from kFirstReplicaByte on a message belongs to
// replica_messages.h.
constexpr unsigned kFirstReplicaByte = 64;

std::string encode(const Message& message);
// The same into a string that is used again, so that nothing is allocated in the long run.
void encode_into(const Message& message, std::string& control);
// Throws ProtocolError for anything that encode() does not write.
Message decode_message(std::string_view control);

}  // namespace cohort::ps

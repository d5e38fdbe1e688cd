#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cohort/ps/client/client.h"
#include "cohort/ps/client/client_core.h"
#include "cohort/ps/client/client_link.h"

namespace cohort::ps {

// Client's calls, in one file each: what is shared with the links is in ClientCore, the rest
// belongs to the calling thread.
class Client::Impl {
 public:
  explicit Impl(ClientOptions options);
  ~Impl();

  // client.cpp
  void connect(Deadline deadline);
  bool servers_have_model();
  std::vector<std::string> stats(Deadline deadline);
  void leave(Deadline deadline);
  std::uint64_t reconnects() const { return core_.reconnects; }
  std::span<const Slice> slices() const;

  // client_begin.cpp
  std::uint64_t begin(const ModelSpec& spec, const InitialState* initial, Deadline deadline);

  // client_step.cpp
  void begin_step(const StepStart& start);
  void push(int block, std::span<const std::byte* const> partials);
  StepOutcome finish_step(const StepEnd& end, std::span<const BlockRun> runs, Deadline deadline);

  // client_read.cpp
  void read(std::span<const BlockRun> runs, std::uint64_t clock, std::uint64_t before,
            Deadline deadline);
  void read_after(std::span<const BlockRun> runs, std::uint64_t finished, Deadline deadline);

  // client_rows.cpp
  void pull_rows(int table, std::span<const std::uint64_t> keys, std::uint64_t sequence,
                 float* values, Deadline deadline);
  void push_rows(int table, std::span<const std::uint64_t> keys, std::span<const float> gradients);

  // client_snapshot.cpp
  void snapshot(const StateSink& sink, Deadline deadline);

 private:
  // client_begin.cpp
  void initialise(const InitialState* initial, Deadline deadline);
  void check_can_initialise_locked(const InitialState* initial);
  void check_model_locked();

  // client_step.cpp
  void push_slice(int slice, std::span<const std::byte* const> partials);

  // client_read.cpp
  const RunPlan& plan_of(std::span<const BlockRun> runs);
  // Without the lock: copies what is wanted of a slice to its place. Returns the version.
  std::uint64_t copy_slice(const RunPlan& plan, int slice);
  void copy_received(const PlacedSlice& placed, std::span<const ReadRun> runs);

  // client_rows.cpp
  void queue_rows_locked(int table, int server);
  const TableSpec& table_of(int table) const;

  // client_snapshot.cpp
  bool try_snapshot(const StateSink& sink, Deadline deadline);
  void deliver(const StateSink& sink, const Request::Piece& piece);
  void abandon(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Request>& request);

  std::shared_ptr<Request> request_to_all(Request::Kind kind);
  Link& link_of(const Slice& slice) { return *core_.links[static_cast<std::size_t>(slice.server)]; }
  const ClientLayout& layout() const;  // Throws where begin() was not called.

  ClientCore core_;
  bool ended_ = false;  // of thread_
  std::thread thread_;
  std::shared_ptr<const ClientLayout> layout_;  // the core's, for the callers' threads
  std::vector<std::shared_ptr<const SegmentReader>> readers_;  // by server, as of the last call
  std::vector<int> ready_;                                     // slices that are being copied
  std::vector<std::pair<int, std::uint64_t>> copied_;          // and their versions
  RunPlan plan_;
};

}  // namespace cohort::ps

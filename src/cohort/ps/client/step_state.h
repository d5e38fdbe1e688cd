#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cohort/ps/client/client_layout.h"
#include "cohort/ps/client/client_types.h"
#include "cohort/ps/wire/messages.h"

namespace cohort::ps {

// The step under way: what was pushed, what the servers have answered, and the versions of the
// values that the caller has. Knows no connection.
//
// Threads: none of its own; guarded by ClientState::mutex.
// Failure: COHORT_CHECK for calls out of order, InvalidInput for a step that is not complete,
// ProtocolError for answers to what was not asked.
class StepState {
 public:
  // A table's rows for one server.
  struct Rows {
    bool pushed = false;
    bool answered = false;
    std::vector<std::byte> bytes;  // RowGradients::encode()
    std::uint64_t version = 0;     // of the rows that were pulled last
    std::uint64_t done = 0;        // version with which the push was answered
  };

  void set_layout(std::shared_ptr<const ClientLayout> layout);

  // ---- the caller's side
  void begin(const StepStart& start);
  void push(int slice);
  Rows& push_rows(int server, int table);  // to fill in
  // Every slice was pushed. Tables that were not get empty rows: says which, as (server, table).
  std::vector<std::pair<int, int>> end(const StepEnd& end);
  void take_ready(std::vector<int>& slices);  // answered since the last call
  StepOutcome finish();

  void set_version(int slice, std::uint64_t version);
  void set_rows_version(int server, int table, std::uint64_t version);

  // ---- the servers' side. True: the caller has to look.
  bool on_values(const Values& message, bool carries_values);
  bool on_rows_done(int server, const RowsDone& message);
  bool on_step_done(const StepDone& message);

  // ---- what a server may still lack
  bool is_active() const { return active_; }
  bool is_ended() const { return ended_; }
  bool waits_for(int server) const;
  int missing(int server) const { return of(server).missing; }
  bool is_complete() const { return missing_ == 0 && done_; }
  bool has_ready() const { return !ready_.empty(); }
  bool is_done() const { return done_; }  // server 0 has ended it
  const StepBegin& begun() const { return begin_; }
  const StepEnd& ended() const { return end_; }
  std::span<const int> pushed(int server) const { return of(server).pushed; }
  bool is_answered(int slice) const { return answered_[static_cast<std::size_t>(slice)] != 0; }
  std::uint64_t version(int slice) const { return version_[static_cast<std::size_t>(slice)]; }
  const Rows& rows(int server, int table) const {
    return of(server).tables[static_cast<std::size_t>(table)];
  }

 private:
  struct Server {
    std::vector<int> pushed;  // slices, in the order in which they were
    std::vector<Rows> tables;
    int missing = 0;  // slices and tables that are not answered
  };
  const Server& of(int server) const { return servers_[static_cast<std::size_t>(server)]; }
  Server& of(int server) { return servers_[static_cast<std::size_t>(server)]; }
  void answered(Server& server, Values::Reason reason);

  std::shared_ptr<const ClientLayout> layout_;
  bool active_ = false;
  bool ended_ = false;
  StepBegin begin_;
  StepEnd end_;
  std::vector<char> pushed_, answered_;  // by slice
  std::vector<std::uint64_t> version_;   // by slice: of the values that the caller has
  std::vector<Server> servers_;
  std::vector<int> ready_;  // slices that were answered and not copied yet
  int missing_ = 0;         // over all servers
  std::uint64_t dropped_ = 0;
  bool done_ = false;  // server 0's StepDone is here
  StepDone result_;
};

}  // namespace cohort::ps

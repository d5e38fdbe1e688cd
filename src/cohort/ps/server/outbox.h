#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cohort/ps/server/aggregation.h"
#include "cohort/ps/state/server_state.h"
#include "cohort/ps/wire/connection.h"
#include "cohort/ps/wire/messages.h"

namespace cohort::ps {

// What one worker is to be sent. Values are queued by number only and copied when the socket takes
// them: a worker that does not read costs no memory, and gets what is newest when it does. In the
// order of need: short answers; values of the highest block first, since the first layers stand at
// the end and are used first; whole pulls; copies of the state.
//
// Threads: confined to one. `changed` is called when there is something new.
class Outbox {
 public:
  explicit Outbox(std::function<void()> changed) : changed_(std::move(changed)) {}

  // From here on values are this state's, which must outlive it. `shared`: the worker reads them
  // from the segment. `wire`: as what f32 values travel otherwise. Bulk bytes are added to
  // `bytes_out`, which must outlive it too.
  void attach(ServerState& state, bool shared, WireType wire, std::uint64_t& bytes_out);

  void add(Message message, std::string bulk = {}, int file = -1);
  void add_values(int slice, const Settled& push);
  void add_pull(const Pull& pull);
  // A part of a copy of the state; `sent` is called when the last was taken.
  void add_copy(Message message, std::string bulk);
  void end_copy(Message message, std::function<void()> sent);
  // Nothing but this goes out any more.
  void close(Refused refused);

  bool is_closed() const { return closed_; }
  std::size_t pulls() const { return pulls_.size(); }

  // The next one; its memory stays until the next call. False when there is none.
  bool next(Outgoing& out);

 private:
  struct Reply {
    Message message;
    std::string bulk;
    int file = -1;
  };
  struct WholePull {
    Pull pull;
    int next;  // slices count down to -1
  };
  void give(Outgoing& out, Reply reply);
  void give_values(Outgoing& out, int slice, Values values, const std::byte* from);
  void give_pulled(Outgoing& out, const Pull& pull, int slice);
  int slices() const;

  std::function<void()> changed_;
  ServerState* state_ = nullptr;
  bool shared_ = false;
  WireType wire_ = WireType::exact;
  bool closed_ = false;
  std::deque<Reply> replies_;
  std::map<int, Settled, std::greater<>> values_;  // by slice
  std::deque<WholePull> pulls_;
  std::deque<Reply> copies_;
  std::function<void()> copy_sent_;
  Reply current_;                  // what next() gave
  std::vector<std::byte> buffer_;  // values that next() gave
  std::uint64_t* bytes_out_ = nullptr;
};

}  // namespace cohort::ps

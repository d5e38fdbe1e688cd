#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "cohort/base/unique_fd.h"
#include "cohort/ps/state/server_state.h"
#include "cohort/ps/wire/connection.h"

namespace cohort::ps {

// The copies of other servers' state that this server holds, each in a memory file of its own, and
// the service that keeps them: a new snapshot replaces the copy when it is whole, records are
// applied and acknowledged, a primary that was started anew gets it back.
//
// A copy belongs to one incarnation of its primary. A newer one takes it over; from its fetch on,
// records of older ones are refused.
//
// In a server, whose own ConnectionOwner learns from the first message what a connection is for:
//
//   place(control, bytes):   if (!replica_ && is_replica_message(control))
//                              replica_ = holder.serve(connection, identity);
//                            if (replica_) return replica_->place(control, bytes);
//   received(...):           the same with received(...)
//   produce(next):           if (replica_) return replica_->produce(next);
//
// Threads: confined to the server's loop. Ownership: must outlive what serve() gives, and that the
// use of its connection.
// Failure: what a primary does wrong ends its connection (the owner's calls throw ProtocolError) or
// is refused in words; the copies stay as they are.
class ReplicaHolder {
 public:
  struct Options {
    int server = 0;  // this one
    int servers = 1;
    std::string job;
    std::uint64_t memory_limit = 0;  // of one copy; 0: none
  };
  explicit ReplicaHolder(Options options) : options_(std::move(options)) {}

  // `identity` is what the peer has proven: "ps/0".
  std::unique_ptr<ConnectionOwner> serve(Connection& connection, std::string identity);

 private:
  class Session;
  struct Copy {
    std::uint64_t newest = 0;  // incarnation that was heard of or given out
    std::uint64_t incarnation = 0;
    std::uint64_t applied = 0;
    UniqueFd file;
    std::unique_ptr<ServerState> state;
  };

  const Options options_;
  std::map<int, Copy> copies_;  // by primary
};

}  // namespace cohort::ps

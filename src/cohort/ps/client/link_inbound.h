#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "cohort/ps/client/link_state.h"
#include "cohort/ps/client/requests.h"
#include "cohort/ps/wire/messages.h"

namespace cohort::ps {

// A server's answers to the step under way and to requests, taken into the client's state.
//
// Threads: the client's. `link` must outlive it. Failure: ProtocolError for answers that do not fit
// what was asked; the connection is to be ended.
class LinkInbound {
 public:
  explicit LinkInbound(LinkState& link) : link_(link) {}

  // Where the bytes behind a message go; nothing: not yet (ConnectionOwner::place).
  std::optional<std::byte*> place(const Message& message, std::size_t bulk_bytes);

  void on(const Values& message);
  void on(const RowsDone& message);
  void on(const Rows& message);
  void on(const StepDone& message);
  void on(const PullDone& message);
  void on(const Frozen& message);
  void on(const SliceState& message, std::size_t bulk_bytes);
  void on(const TablePiece& message);
  void on(const SnapshotDone& message);
  void on(const Stats& message);

  void connection_lost() { receiving_.reset(); }

 private:
  void finish_part_locked(std::uint64_t request, Request::Kind kind);
  const SliceLocation& own_slice_locked(std::int32_t slice) const;

  LinkState& link_;
  std::shared_ptr<Request> receiving_;  // whose memory is in use
  std::vector<std::byte> piece_;        // of a snapshot, being received
};

}  // namespace cohort::ps

#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "cohort/ps/client/link_state.h"
#include "cohort/ps/client/requests.h"
#include "cohort/ps/wire/connection.h"

namespace cohort::ps {

// What a worker's link sends after its Hello, made from the client's state at the moment the socket
// takes it: the chief's model, the step under way, and requests.
//
// Threads: the client's, but for functions that say "locked", which are for holders of
// ClientState::mutex. `link` must outlive it.
class LinkOutbound {
 public:
  struct Item {
    enum class Kind { step_begin, push, rows_push, step_end, request };
    Kind kind;
    int index = 0;  // slice or table
    std::shared_ptr<Request> request;
  };

  explicit LinkOutbound(LinkState& link) : link_(link) {}

  // Nothing happens until the server is ready: see queue_again_locked().
  void enqueue_locked(Item item);
  // After a Welcome: everything that this server may not have, or whose answer was lost.
  void queue_again_locked();
  void connection_lost_locked();

  bool produce(Outgoing& next);  // as ConnectionOwner's

 private:
  bool produce_initial(Outgoing& next);
  bool produce_item_locked(const Item& item, Outgoing& next);
  bool produce_push_locked(int slice, Outgoing& next);
  bool produce_request_locked(const std::shared_ptr<Request>& request, Outgoing& next);

  LinkState& link_;
  std::deque<Item> queue_;            // guarded by ClientState::mutex
  std::shared_ptr<Request> sending_;  // whose memory is in use
  std::size_t initial_next_ = 0;      // how far the chief's initial state has been sent
  std::vector<std::byte> initial_bytes_;
};

}  // namespace cohort::ps

#include "cohort/ps/client/state_copy.h"

#include <algorithm>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::ps {

namespace {

void deliver(const ClientLayout& layout, const StateSink& sink, const Request::Piece& piece) {
  if (piece.table >= 0) {
    sink.table(piece.table,
               {reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size()});
    return;
  }
  const SliceLocation& placed = layout.placed[static_cast<std::size_t>(piece.slice)];
  for (int slot = -1; slot < placed.slots; ++slot)
    sink.slice(placed.slice.block, slot, placed.slice.offset, placed.slice.elements, piece.updates,
               piece.bytes.data() + static_cast<std::size_t>(slot + 1) * placed.bytes);
}

// By worker, the furthest that any server has begun: with these pushes in, all servers are level.
std::vector<std::uint64_t> furthest(const Request& frozen) {
  std::vector<std::uint64_t> limits;
  for (const Request::Part& part : frozen.parts) {
    limits.resize(std::max(limits.size(), part.sequences.size()));
    for (std::size_t worker = 0; worker < part.sequences.size(); ++worker)
      limits[worker] = std::max(limits[worker], part.sequences[worker]);
  }
  return limits;
}

// Servers that are left may still be frozen for the attempt, or send what belongs to it: a new
// connection frees them of it.
bool abandon(ServerLinks& links, ServerLinks::Lock& lock, const Request& request) {
  lock.unlock();
  links.reconnect_all();
  lock.lock();
  links.state().requests.remove(request);
  return false;
}

// False when a server was lost meanwhile.
bool try_copy(ServerLinks& links, const StateSink& sink, Deadline deadline) {
  ServerLinks::Lock lock(links.state().mutex);
  const ClientLayout& layout = *links.state().layout;
  const auto freeze = Request::to_all(Request::Kind::freeze, links.count());
  links.complete(lock, freeze, "freezing the servers for a snapshot", deadline);
  if (freeze->broken) return abandon(links, lock, *freeze);

  const auto snapshot = Request::to_all(Request::Kind::snapshot, links.count());
  snapshot->id = freeze->id;
  snapshot->limits = furthest(*freeze);
  links.submit(lock, snapshot);
  while (true) {
    links.wait(
        lock, deadline, "a snapshot",
        [&] { return !snapshot->pieces.empty() || snapshot->missing == 0 || snapshot->broken; },
        [&](int server) -> std::string {
          return snapshot->part(server).done ? ""
                                             : "is connected and has not sent all of its state";
        });
    if (snapshot->broken) return abandon(links, lock, *snapshot);
    if (snapshot->pieces.empty()) break;
    const Request::Piece piece = std::move(snapshot->pieces.front());
    snapshot->pieces.pop_front();
    lock.unlock();
    links.wake();  // there is memory for another
    deliver(layout, sink, piece);
    lock.lock();
  }
  links.state().requests.remove(*snapshot);
  return true;
}

}  // namespace

void copy_state(ServerLinks& links, const StateSink& sink, Deadline deadline) {
  while (!try_copy(links, sink, deadline))
    if (sink.restart) sink.restart();
}

}  // namespace cohort::ps

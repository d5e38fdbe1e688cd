// A consistent copy of everything: all servers say how far they are, and then copy at the furthest
// of those places (messages.h: Hold, Cut).
#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/ps/client/client_impl.h"

namespace cohort::ps {

void Client::Impl::snapshot(const StateSink& sink, Deadline deadline) {
  layout();
  while (!try_snapshot(sink, deadline))
    if (sink.restart) sink.restart();
}

// Servers that are left may still hold, or send, what belongs to the attempt: a new connection
// frees them of it.
void Client::Impl::abandon(std::unique_lock<std::mutex>& lock,
                           const std::shared_ptr<Request>& request) {
  lock.unlock();
  core_.run_on_loop([&] {
    for (const auto& link : core_.links) link->redial();
  });
  lock.lock();
  core_.forget(request);
}

// False when a server was lost meanwhile.
bool Client::Impl::try_snapshot(const StateSink& sink, Deadline deadline) {
  std::unique_lock lock(core_.mutex);
  const auto hold = request_to_all(Request::Kind::hold);
  core_.complete(lock, hold, "holding for a snapshot", deadline);
  if (hold->broken) {
    abandon(lock, hold);
    return false;
  }

  const auto cut = request_to_all(Request::Kind::cut);
  cut->id = hold->id;
  for (const auto& part : hold->parts) {
    cut->limits.resize(std::max(cut->limits.size(), part.sequences.size()));
    for (std::size_t worker = 0; worker < part.sequences.size(); ++worker)
      cut->limits[worker] = std::max(cut->limits[worker], part.sequences[worker]);
  }
  core_.submit(lock, cut);
  while (true) {
    core_.wait(
        lock, deadline, "a snapshot",
        [&] { return !cut->pieces.empty() || cut->missing == 0 || cut->broken; },
        [&](int server) -> std::string {
          return cut->parts[static_cast<std::size_t>(server)].done
                     ? ""
                     : "is connected and has not sent all of its state";
        });
    if (cut->broken) {
      abandon(lock, cut);
      return false;
    }
    if (cut->pieces.empty()) break;
    const Request::Piece piece = std::move(cut->pieces.front());
    cut->pieces.pop_front();
    lock.unlock();
    core_.wake();  // there is room again
    deliver(sink, piece);
    lock.lock();
  }
  core_.forget(cut);
  return true;
}

void Client::Impl::deliver(const StateSink& sink, const Request::Piece& piece) {
  if (piece.table >= 0) {
    sink.table(piece.table,
               {reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size()});
    return;
  }
  const PlacedSlice& placed = layout_->placed[static_cast<std::size_t>(piece.slice)];
  for (int slot = -1; slot < placed.slots; ++slot)
    sink.slice(placed.slice.block, slot, placed.slice.offset, placed.slice.elements, piece.updates,
               piece.bytes.data() + static_cast<std::size_t>(slot + 1) * placed.bytes);
}

}  // namespace cohort::ps

#include "cohort/ps/server/snapshot_service.h"

#include <string>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::ps {

void SnapshotService::freeze(int worker, const FreezeRequest& request) {
  coordinator_.freeze(worker, request.request);
  engine_.set_limits(coordinator_.limits());
  advance();
}

void SnapshotService::copy(int worker, const SnapshotRequest& request) {
  if (!coordinator_.request(worker, request))
    throw ProtocolError(
        fmt::format("worker/{} requests a snapshot for which the training is not frozen", worker));
  engine_.set_limits(coordinator_.limits());
  advance();
}

void SnapshotService::release(int worker) {
  coordinator_.release(worker);
  engine_.set_limits(coordinator_.limits());
  advance();
}

void SnapshotService::advance() {
  if (coordinator_.can_begin()) {
    auto [worker, frozen] = coordinator_.begin_next(engine_.begun());
    frozen_since_ = std::chrono::steady_clock::now();
    engine_.set_limits(coordinator_.limits());
    if (Outbox* outbox = peers_.outbox(worker)) outbox->add(std::move(frozen));
  }
  if (!coordinator_.is_copy_due() || !engine_.is_level()) return;
  send_state();
  coordinator_.copied();
  engine_.set_limits({});
}

void SnapshotService::send_state() {
  const int worker = coordinator_.requester();
  Outbox* outbox = peers_.outbox(worker);
  COHORT_CHECK(outbox != nullptr, "worker/{} is gone, but the training is frozen for it", worker);
  for (std::size_t slice = 0; slice < state_.slices().size(); ++slice) {
    const int number = static_cast<int>(slice);
    SliceState header{coordinator_.number(), state_.slice_numbers()[slice],
                      state_.segment().version(number), 0};
    std::string bytes;
    state_.get_slice(number, header.updates, bytes);
    outbox->add_copy(header, std::move(bytes));
  }
  for (int table = 0; table < state_.tables(); ++table)
    state_.table(table).write_snapshot(
        [&](std::string_view piece) { outbox->add_copy(TablePiece{table}, std::string(piece)); });
  const std::uint64_t request = coordinator_.number();
  outbox->end_copy(SnapshotDone{request}, [this, request] {
    coordinator_.sent(request);
    advance();
  });
}

}  // namespace cohort::ps

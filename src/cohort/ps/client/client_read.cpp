// Values, from a server's memory or from what was received, to where the caller wants them.
#include "cohort/base/error.h"
#include "cohort/ps/client/client_impl.h"
#include "cohort/ps/wire/wire_type.h"

namespace cohort::ps {

const RunPlan& Client::Impl::plan_of(std::span<const BlockRun> runs) {
  if (!plan_.is_of(runs)) plan_ = RunPlan(layout(), runs);
  return plan_;
}

void Client::Impl::read(std::span<const BlockRun> runs, std::uint64_t clock, std::uint64_t before,
                        Deadline deadline) {
  const RunPlan plan(layout(), runs);
  bool ask = clock > 0;
  std::unique_lock lock(core_.mutex);
  if (core_.failure) std::rethrow_exception(core_.failure);
  auto request = std::shared_ptr<Request>();
  for (const int slice : plan.slices())
    ask = ask || !link_of(layout_->slices[static_cast<std::size_t>(slice)]).is_local_locked();
  if (ask) {
    request = std::make_shared<Request>(Request::Kind::pull, core_.servers());
    request->clock = clock;
    request->before = before;
    for (const int slice : plan.slices()) {
      const Slice& of = layout_->slices[static_cast<std::size_t>(slice)];
      request->parts[static_cast<std::size_t>(of.server)].wanted =
          clock > 0 || !link_of(of).is_local_locked();
    }
    core_.complete(lock, request, "reading the values", deadline);
  }
  for (std::size_t server = 0; server < readers_.size(); ++server)
    readers_[server] = core_.links[server]->reader_locked();
  lock.unlock();
  copied_.clear();
  for (const int slice : plan.slices()) copied_.emplace_back(slice, copy_slice(plan, slice));
  lock.lock();
  for (const auto& [slice, version] : copied_)
    if (version > 0) core_.step.version[static_cast<std::size_t>(slice)] = version;
}

void Client::Impl::read_after(std::span<const BlockRun> runs, std::uint64_t finished,
                              Deadline deadline) {
  read(runs, 0, finished + 1, deadline);
  const RunPlan plan(layout(), runs);
  for (const int slice : plan.slices()) {
    const PlacedSlice& placed = layout_->placed[static_cast<std::size_t>(slice)];
    const auto& reader = readers_[static_cast<std::size_t>(placed.slice.server)];
    if (reader && reader->version(placed.local) == finished + 1 &&
        !reader->read_before(placed.local, finished, plan.of_slice(slice)))
      copy_slice(plan, slice);
  }
}

std::uint64_t Client::Impl::copy_slice(const RunPlan& plan, int slice) {
  const PlacedSlice& placed = layout_->placed[static_cast<std::size_t>(slice)];
  const auto runs = plan.of_slice(slice);
  const auto& reader = readers_[static_cast<std::size_t>(placed.slice.server)];
  if (reader) return reader->read(placed.local, runs);
  copy_received(placed, runs);
  return 0;
}

void Client::Impl::copy_received(const PlacedSlice& placed, std::span<const ReadRun> runs) {
  Link& link = link_of(placed.slice);
  const std::byte* from = link.inbox() + placed.inbox_offset;
  for (const ReadRun& run : runs)
    from_wire(from + wire_bytes(placed.type, link.wire(), run.first), placed.type, link.wire(),
              run.count, run.to);
}

}  // namespace cohort::ps

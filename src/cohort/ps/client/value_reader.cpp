#include "cohort/ps/client/value_reader.h"

#include "cohort/base/error.h"
#include "cohort/ps/wire/wire_type.h"

namespace cohort::ps {

ValueReader::ValueReader(ServerLinks& links, const ClientLayout& layout)
    : links_(links), layout_(layout), readers_(static_cast<std::size_t>(links.count())) {}

const RunPlan& ValueReader::plan_of(std::span<const BlockRun> runs) {
  if (!plan_.is_of(runs)) plan_ = RunPlan(layout_, runs);
  return plan_;
}

void ValueReader::copy(ServerLinks::Lock& lock, const RunPlan& plan, std::span<const int> slices) {
  for (std::size_t server = 0; server < readers_.size(); ++server)
    readers_[server] = links_.at(static_cast<int>(server)).reader;
  lock.unlock();
  copied_.clear();
  for (const int slice : slices) copied_.emplace_back(slice, copy_slice(plan, slice));
  lock.lock();
  for (const auto& [slice, version] : copied_)
    if (version > 0) links_.state().step.set_version(slice, version);
}

void ValueReader::read(std::span<const BlockRun> runs, std::uint64_t clock, std::uint64_t before,
                       Deadline deadline) {
  const RunPlan plan(layout_, runs);
  ServerLinks::Lock lock(links_.state().mutex);
  if (links_.state().failure) std::rethrow_exception(links_.state().failure);
  const auto request = std::make_shared<Request>(Request::Kind::pull, links_.count());
  request->clock = clock;
  request->before = before;
  bool ask = clock > 0;
  for (const int slice : plan.slices()) {
    const int server = layout_.slices[static_cast<std::size_t>(slice)].server;
    const bool wanted = clock > 0 || !links_.at(server).is_local();
    request->part(server).wanted = wanted;
    ask = ask || wanted;
  }
  if (ask) links_.complete(lock, request, "reading the values", deadline);
  copy(lock, plan, plan.slices());
}

void ValueReader::read_after(std::span<const BlockRun> runs, std::uint64_t finished,
                             Deadline deadline) {
  read(runs, 0, finished + 1, deadline);
  const RunPlan plan(layout_, runs);
  for (const int slice : plan.slices()) {
    const SliceLocation& placed = layout_.placed[static_cast<std::size_t>(slice)];
    const auto& reader = readers_[static_cast<std::size_t>(placed.slice.server)];
    if (reader && reader->version(placed.local) == finished + 1 &&
        !reader->read_before(placed.local, finished, plan.of_slice(slice)))
      copy_slice(plan, slice);
  }
}

std::uint64_t ValueReader::copy_slice(const RunPlan& plan, int slice) const {
  const SliceLocation& placed = layout_.placed[static_cast<std::size_t>(slice)];
  const auto runs = plan.of_slice(slice);
  const auto& reader = readers_[static_cast<std::size_t>(placed.slice.server)];
  if (reader) return reader->read(placed.local, runs);
  copy_received(placed, runs);
  return 0;
}

void ValueReader::copy_received(const SliceLocation& placed, std::span<const ReadRun> runs) const {
  const LinkState& link = links_.at(placed.slice.server);
  const std::byte* from = link.inbox.data() + placed.inbox_offset;
  for (const ReadRun& run : runs)
    from_wire(from + wire_bytes(placed.type, link.wire(), run.first), placed.type, link.wire(),
              run.count, run.to);
}

}  // namespace cohort::ps

// A step: gradients go out as they are made, values come back slice by slice.
#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/collective/reduction/kernels.h"
#include "cohort/ps/client/client_impl.h"
#include "cohort/ps/wire/wire_type.h"

namespace cohort::ps {

void Client::Impl::begin_step(const StepStart& start) {
  layout();
  std::lock_guard lock(core_.mutex);
  StepState& step = core_.step;
  COHORT_CHECK(!step.active, "step {} begins before step {} was finished", start.sequence,
               step.begin.sequence);
  step.active = true;
  step.ended = step.done = false;
  step.begin.sequence = start.sequence;
  step.begin.weight = start.weight;
  step.begin.learning_rates = start.learning_rates;
  std::fill(step.pushed.begin(), step.pushed.end(), 0);
  std::fill(step.answered.begin(), step.answered.end(), 0);
  step.ready.clear();
  step.dropped = 0;
  step.missing = 0;
  for (std::size_t server = 0; server < step.servers.size(); ++server) {
    StepState::Server& share = step.servers[server];
    share.pushed.clear();
    for (auto& rows : share.tables) rows.pushed = rows.answered = false;
    share.missing =
        static_cast<int>(layout_->of_server[server].size() + layout_->spec.tables.size());
    step.missing += share.missing;
  }
  for (const auto& link : core_.links) link->enqueue_locked({Link::Item::Kind::step_begin});
  core_.wake();
}

void Client::Impl::push(int block, std::span<const std::byte* const> partials) {
  const ClientLayout& layout = this->layout();
  if (block < 0 || static_cast<std::size_t>(block) >= layout.of_block.size())
    throw InvalidInput(
        fmt::format("a push of block {}; the model has {}", block, layout.of_block.size()));
  if (partials.size() != static_cast<std::size_t>(layout.nodes))
    throw InvalidInput(
        fmt::format("a push of block {} has {} partials; this worker's shards make "
                    "{}",
                    block, partials.size(), layout.nodes));
  for (const int slice : layout.of_block[static_cast<std::size_t>(block)])
    push_slice(slice, partials);
}

void Client::Impl::push_slice(int slice, std::span<const std::byte* const> partials) {
  const PlacedSlice& placed = layout_->placed[static_cast<std::size_t>(slice)];
  Link& link = link_of(placed.slice);
  std::byte* to = link.outbox().at(placed.outbox_offset);
  for (const std::byte* partial : partials) {
    const std::byte* from = partial + placed.slice.offset * placed.element_bytes;
    if (link.wire() == WireType::exact)
      collective::copy_bytes(to, from, placed.bytes);
    else
      to_wire(from, placed.type, link.wire(), placed.slice.elements, to);
    to += wire_bytes(placed.type, link.wire(), placed.slice.elements);
  }
  std::lock_guard lock(core_.mutex);
  StepState& step = core_.step;
  COHORT_CHECK(step.active && !step.ended, "a push outside of a step");
  COHORT_CHECK(!step.pushed[static_cast<std::size_t>(slice)], "block {} is pushed twice in a step",
               placed.slice.block);
  step.pushed[static_cast<std::size_t>(slice)] = 1;
  step.servers[static_cast<std::size_t>(placed.slice.server)].pushed.push_back(slice);
  link.enqueue_locked({Link::Item::Kind::push, slice});
  core_.wake();
}

StepOutcome Client::Impl::finish_step(const StepEnd& end, std::span<const BlockRun> runs,
                                      Deadline deadline) {
  const RunPlan& plan = plan_of(runs);
  std::unique_lock lock(core_.mutex);
  StepState& step = core_.step;
  COHORT_CHECK(step.active && !step.ended, "finish_step() without begin_step()");
  for (std::size_t slice = 0; slice < step.pushed.size(); ++slice)
    if (!step.pushed[slice])
      throw InvalidInput(
          fmt::format("block {} was not pushed in step {}", layout_->slices[slice].block,
                      step.begin.sequence),
          {.advice = "Push every block once a step; zeros where it has no gradient."});
  for (std::size_t table = 0; table < layout_->spec.tables.size(); ++table)
    for (int server = 0; server < core_.servers(); ++server)
      if (!step.servers[static_cast<std::size_t>(server)].tables[table].pushed) {
        step.servers[static_cast<std::size_t>(server)].tables[table].bytes.assign(
            sizeof(std::uint64_t), std::byte{0});
        queue_rows_locked(static_cast<int>(table), server);
      }
  step.end = end;
  step.end.sequence = step.begin.sequence;
  step.ended = true;
  for (const auto& link : core_.links) link->enqueue_locked({Link::Item::Kind::step_end});
  core_.wake();

  const std::string what = fmt::format("step {}", step.begin.sequence);
  const auto missing = [&](int server) -> std::string {
    const int open = step.servers[static_cast<std::size_t>(server)].missing;
    if (open > 0)
      return fmt::format("is connected and has not answered {} of {} pushes", open,
                         layout_->of_server[static_cast<std::size_t>(server)].size() +
                             layout_->spec.tables.size());
    return server == 0 && !step.done ? "is connected and has not ended the step" : "";
  };
  // Values are copied while others are still on their way.
  while (true) {
    core_.wait(
        lock, deadline, what, [&] { return !step.ready.empty() || step.is_complete(); }, missing);
    if (step.ready.empty()) break;
    ready_.clear();
    ready_.swap(step.ready);
    for (std::size_t server = 0; server < readers_.size(); ++server)
      readers_[server] = core_.links[server]->reader_locked();
    lock.unlock();
    copied_.clear();
    for (const int slice : ready_) copied_.emplace_back(slice, copy_slice(plan, slice));
    lock.lock();
    for (const auto& [slice, version] : copied_)
      if (version > 0) step.version[static_cast<std::size_t>(slice)] = version;
  }
  step.active = false;
  std::uint64_t version = UINT64_MAX;
  for (const std::uint64_t slice : step.version) version = std::min(version, slice);
  for (const StepState::Server& server : step.servers)
    for (const StepState::Rows& rows : server.tables) version = std::min(version, rows.done);
  return {step.result.whole, step.result.tally, step.result.stop, step.dropped, version};
}

}  // namespace cohort::ps

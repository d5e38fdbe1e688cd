#include "cohort/ps/client/step_calls.h"

#include <cstring>

#include "cohort/base/error.h"
#include "cohort/collective/reduction/kernels.h"
#include "cohort/ps/wire/wire_type.h"

namespace cohort::ps {

using ItemKind = LinkOutbound::Item::Kind;

void StepCalls::begin_step(const StepStart& start) {
  std::lock_guard lock(links_.state().mutex);
  links_.state().step.begin(start);
  links_.enqueue_to_all_locked(ItemKind::step_begin);
  links_.wake();
}

void StepCalls::push(int block, std::span<const std::byte* const> partials) {
  if (block < 0 || static_cast<std::size_t>(block) >= layout_.of_block.size())
    throw InvalidInput(
        fmt::format("block must be from 0 to {}, got {}", layout_.of_block.size() - 1, block));
  if (partials.size() != static_cast<std::size_t>(layout_.nodes))
    throw InvalidInput(
        fmt::format("a push of block {} has {} partials; this worker's shards make {}", block,
                    partials.size(), layout_.nodes));
  for (const int slice : layout_.of_block[static_cast<std::size_t>(block)])
    push_slice(slice, partials);
}

void StepCalls::push_slice(int slice, std::span<const std::byte* const> partials) {
  const SliceLocation& placed = layout_.placed[static_cast<std::size_t>(slice)];
  const LinkState& link = links_.at(placed.slice.server);
  std::byte* to = link.outbox.at(placed.outbox_offset);
  for (const std::byte* partial : partials) {
    const std::byte* from = partial + placed.slice.offset * placed.element_bytes;
    if (link.wire() == WireType::exact)
      collective::copy_bytes(to, from, placed.bytes);
    else
      to_wire(from, placed.type, link.wire(), placed.slice.elements, to);
    to += wire_bytes(placed.type, link.wire(), placed.slice.elements);
  }
  std::lock_guard lock(links_.state().mutex);
  links_.state().step.push(slice);
  links_.enqueue_locked(placed.slice.server, {ItemKind::push, slice, nullptr});
  links_.wake();
}

StepOutcome StepCalls::finish_step(const StepEnd& end, std::span<const BlockRun> runs,
                                   Deadline deadline) {
  const RunPlan& plan = values_.plan_of(runs);
  StepState& step = links_.state().step;
  ServerLinks::Lock lock(links_.state().mutex);
  for (const auto& [server, table] : step.end(end))
    links_.enqueue_locked(server, {ItemKind::rows_push, table, nullptr});
  links_.enqueue_to_all_locked(ItemKind::step_end);
  links_.wake();

  const std::string what = fmt::format("step {}", step.begun().sequence);
  const auto missing = [&](int server) -> std::string {
    if (const int open = step.missing(server); open > 0)
      return fmt::format(
          "is connected and has not answered {} of {} pushes", open,
          layout_.of_server[static_cast<std::size_t>(server)].size() + layout_.spec.tables.size());
    return server == 0 && !step.is_done() ? "is connected and has not ended the step" : "";
  };
  // Values are copied while others are still on their way.
  while (true) {
    links_.wait(
        lock, deadline, what, [&] { return step.has_ready() || step.is_complete(); }, missing);
    if (!step.has_ready()) return step.finish();
    step.take_ready(ready_);
    values_.copy(lock, plan, ready_);
  }
}

const TableSpec& StepCalls::table_of(int table) const {
  const auto& tables = layout_.spec.tables;
  if (table < 0 || static_cast<std::size_t>(table) >= tables.size())
    throw InvalidInput(
        fmt::format("table must be one of the model's {}, got {}", tables.size(), table));
  return tables[static_cast<std::size_t>(table)];
}

std::vector<std::vector<std::size_t>> StepCalls::deal(std::span<const std::uint64_t> keys) const {
  std::vector<std::vector<std::size_t>> of_server(static_cast<std::size_t>(links_.count()));
  for (std::size_t i = 0; i < keys.size(); ++i)
    of_server[static_cast<std::size_t>(server_of_key(keys[i], links_.count()))].push_back(i);
  return of_server;
}

void StepCalls::pull_rows(int table, std::span<const std::uint64_t> keys, std::uint64_t sequence,
                          float* values, Deadline deadline) {
  const auto dimension = static_cast<std::size_t>(table_of(table).dimension);
  const auto request = std::make_shared<Request>(Request::Kind::rows, links_.count());
  request->table = table;
  request->sequence = sequence;
  const auto of_server = deal(keys);
  for (std::size_t server = 0; server < of_server.size(); ++server) {
    Request::Part& part = request->parts[server];
    for (const std::size_t i : of_server[server]) part.keys.push_back(keys[i]);
    part.wanted = !part.keys.empty();
    part.values.resize(part.keys.size() * dimension);
  }
  {
    ServerLinks::Lock lock(links_.state().mutex);
    links_.complete(lock, request, "pulling rows", deadline);
    for (int server = 0; server < links_.count(); ++server)
      if (request->part(server).wanted)
        links_.state().step.set_rows_version(server, table, request->part(server).version);
  }
  for (std::size_t server = 0; server < of_server.size(); ++server)
    for (std::size_t i = 0; i < of_server[server].size(); ++i)
      std::memcpy(values + of_server[server][i] * dimension,
                  request->parts[server].values.data() + i * dimension, dimension * sizeof(float));
}

void StepCalls::push_rows(int table, std::span<const std::uint64_t> keys,
                          std::span<const float> gradients) {
  const auto dimension = static_cast<std::size_t>(table_of(table).dimension);
  if (gradients.size() != keys.size() * dimension)
    throw InvalidInput(fmt::format("{} numbers for {} rows of {} in table '{}'", gradients.size(),
                                   keys.size(), dimension, table_of(table).name));
  const auto of_server = deal(keys);
  std::lock_guard lock(links_.state().mutex);
  for (std::size_t server = 0; server < of_server.size(); ++server) {
    const int number = static_cast<int>(server);
    auto& bytes = links_.state().step.push_rows(number, table).bytes;
    const std::uint64_t count = of_server[server].size();
    bytes.resize(sizeof count + count * (sizeof(std::uint64_t) + dimension * sizeof(float)));
    std::byte* out = bytes.data();
    const auto put = [&out](const void* from, std::size_t size) {
      std::memcpy(out, from, size);
      out += size;
    };
    put(&count, sizeof count);
    for (const std::size_t i : of_server[server]) put(&keys[i], sizeof keys[i]);
    for (const std::size_t i : of_server[server])
      put(&gradients[i * dimension], dimension * sizeof(float));
    links_.enqueue_locked(number, {ItemKind::rows_push, table, nullptr});
  }
  links_.wake();
}

}  // namespace cohort::ps

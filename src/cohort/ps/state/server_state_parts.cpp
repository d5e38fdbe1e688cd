#include "cohort/ps/state/server_state_parts.h"

#include <algorithm>
#include <numeric>

#include "cohort/base/error.h"
#include "cohort/base/process/machine.h"
#include "cohort/ps/state/segment_layout.h"

namespace cohort::ps {
namespace {

double to_mebibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::vector<RuleRun> runs_of(const Block& block, const Slice& slice) {
  const std::uint64_t end = slice.offset + slice.elements;
  std::vector<RuleRun> runs;
  for (const Part& part : block.parts) {
    const std::uint64_t first = std::max(part.offset, slice.offset);
    const std::uint64_t last = std::min(part.offset + part.elements, end);
    if (first >= last) continue;
    const RuleRun run{first - slice.offset, last - first, static_cast<std::size_t>(part.group)};
    if (!runs.empty() && runs.back().group == run.group &&
        runs.back().first + runs.back().count == run.first)
      runs.back().count += run.count;
    else
      runs.push_back(run);
  }
  return runs;
}

}  // namespace

ServerShare::ServerShare(const ModelSpec& spec, const ServerState::Options& options) {
  const std::vector<Slice> all = place(spec, options.servers);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].server != options.server) continue;
    const Block& block = spec.blocks[static_cast<std::size_t>(all[i].block)];
    slices.push_back(all[i]);
    numbers.push_back(static_cast<int>(i));
    shapes.push_back({block.type, all[i].elements, slot_count(spec, all[i])});
    runs.push_back(runs_of(block, all[i]));
  }
}

ServerState::State::State(Options where, ModelSpec model, std::string model_text)
    : options(where),
      spec(std::move(model)),
      text(std::move(model_text)),
      share(spec, options),
      table_bytes(spec.tables.size(), 0),
      dense_bytes(SegmentLayout(share.shapes, spec.workers, text.size(), 0).tables) {
  if (options.memory_limit == 0 || dense_bytes <= options.memory_limit) return;
  throw MemoryLimit(
      fmt::format("the parameters of ps/{} need {:.1f} MiB (values and optimizer state, twice), "
                  "over the limit of {:.1f} MiB",
                  options.server, to_mebibytes(dense_bytes), to_mebibytes(options.memory_limit)),
      {.advice = "Use more servers (--ps) or raise --ps_memory_limit."});
}

std::uint64_t ServerState::State::room_of_a_table() const {
  // No table outgrows the machine's memory, and all of them fit into a process's addresses.
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  const std::uint64_t memory = (usable_memory() + kGiB - 1) / kGiB * kGiB;
  return std::min(memory, (std::uint64_t{1} << 45) / std::max<std::size_t>(1, spec.tables.size()));
}

std::uint64_t ServerState::State::table_limit() const {
  if (options.memory_limit == 0) return 0;
  return std::max<std::uint64_t>(1, options.memory_limit - dense_bytes);
}

SparseTable::Room ServerState::State::room(std::size_t table) {
  const std::uint64_t each = segment->table_room().size() / spec.tables.size();
  const std::uint64_t begin = table * each;
  const auto grow = [this, table, begin](std::uint64_t bytes) {
    std::uint64_t& has = table_bytes[table];
    if (bytes <= has) return;
    const std::uint64_t all = std::accumulate(table_bytes.begin(), table_bytes.end(), bytes - has);
    if (options.memory_limit != 0 && all > table_limit())
      throw MemoryLimit(
          fmt::format(
              "table '{}' would make the tables of ps/{} {} bytes large; beside {} bytes of "
              "other parameters the limit of {} bytes leaves {}",
              spec.tables[table].name, options.server, all, dense_bytes, options.memory_limit,
              table_limit()),
          {.advice = "Use more servers (--ps) or raise --ps_memory_limit."});
    segment->use_table_room(begin + has, bytes - has);
    has = bytes;
  };
  return {segment->table_room().subspan(begin, each), grow};
}

void ServerState::State::make_tables(std::uint64_t first_step) {
  for (std::size_t i = 0; i < spec.tables.size(); ++i)
    tables.push_back(SparseTable::create(
        spec.tables[i], spec.groups[static_cast<std::size_t>(spec.tables[i].group)], spec.workers,
        room(i), table_limit(), first_step));
}

void ServerState::State::open_tables() {
  for (std::size_t i = 0; i < spec.tables.size(); ++i) {
    tables.push_back(SparseTable::open(spec.tables[i],
                                       spec.groups[static_cast<std::size_t>(spec.tables[i].group)],
                                       spec.workers, room(i), table_limit()));
    table_bytes[i] = std::max(table_bytes[i], tables[i]->bytes());
  }
}

}  // namespace cohort::ps

#include "cohort/ps/state/server_tables.h"

#include <algorithm>
#include <numeric>

#include "cohort/base/error.h"
#include "cohort/base/process/machine.h"
#include "cohort/ps/table/memory_limit.h"

namespace cohort::ps {

ServerTables::ServerTables(int server, const ModelSpec& spec, std::uint64_t dense_bytes,
                           std::uint64_t limit)
    : server_(server),
      spec_(spec),
      dense_bytes_(dense_bytes),
      limit_(limit),
      used_(spec.tables.size(), 0) {}

std::uint64_t ServerTables::arena_bytes(const ModelSpec& spec) {
  // No table outgrows the machine's memory, and all of them fit into a process's addresses.
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  const std::uint64_t memory = (usable_memory() + kGiB - 1) / kGiB * kGiB;
  const std::uint64_t tables = spec.tables.size();
  return tables == 0 ? 0 : tables * std::min(memory, (std::uint64_t{1} << 45) / tables);
}

std::uint64_t ServerTables::table_limit() const {
  return limit_ == 0 ? 0 : std::max<std::uint64_t>(1, limit_ - dense_bytes_);
}

const UpdateRule& ServerTables::rule_of(std::size_t table) const {
  return spec_.groups[static_cast<std::size_t>(spec_.tables[table].group)];
}

TableArena ServerTables::arena(Segment& segment, std::size_t table) {
  const std::uint64_t each = segment.table_arena().size() / spec_.tables.size();
  const std::uint64_t begin = table * each;
  const auto grow = [this, &segment, table, begin](std::uint64_t bytes) {
    std::uint64_t& has = used_[table];
    if (bytes <= has) return;
    const std::uint64_t all = std::accumulate(used_.begin(), used_.end(), bytes - has);
    if (limit_ != 0 && all > table_limit())
      throw MemoryLimit(
          fmt::format(
              "table '{}' would make the tables of ps/{} {} bytes large; beside {} bytes of "
              "other parameters the limit of {} bytes leaves {}",
              spec_.tables[table].name, server_, all, dense_bytes_, limit_, table_limit()),
          {.advice = "Use more servers (--ps) or raise --ps_memory_limit."});
    segment.use_table_arena(begin + has, bytes - has);
    has = bytes;
  };
  return {segment.table_arena().subspan(begin, each), grow};
}

void ServerTables::create(Segment& segment, std::uint64_t first_step) {
  for (std::size_t i = 0; i < spec_.tables.size(); ++i)
    tables_.push_back(SparseTable::create(spec_.tables[i], rule_of(i), spec_.workers,
                                          arena(segment, i), table_limit(), first_step));
}

void ServerTables::open(Segment& segment) {
  for (std::size_t i = 0; i < spec_.tables.size(); ++i) {
    tables_.push_back(SparseTable::open(spec_.tables[i], rule_of(i), spec_.workers,
                                        arena(segment, i), table_limit()));
    used_[i] = std::max(used_[i], tables_[i]->bytes());
  }
}

}  // namespace cohort::ps

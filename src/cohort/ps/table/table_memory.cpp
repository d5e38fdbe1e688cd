#include "cohort/ps/table/table_memory.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <random>

#include "cohort/base/error.h"
#include "cohort/ps/table/memory_limit.h"

namespace cohort::ps {
namespace {

constexpr std::uint64_t kMagic = 0x31424154'54484f43;         // "COHTTAB1"
constexpr std::size_t kMaxTableBytes = std::size_t{1} << 38;  // what an index entry can point to
constexpr std::uint64_t kFirstJournalBytes = 64 << 10;
constexpr std::uint64_t kFirstIndexBytes = 4096;
constexpr std::uint64_t kChunkBytes = 64 << 10;

std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + UndoJournal::kPage - 1) / UndoJournal::kPage * UndoJournal::kPage;
}

std::uint64_t random_word() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace

struct TableMemory::Header {
  std::uint64_t magic = 0;
  TableShape shape;
  std::array<std::uint64_t, 2> hash_keys{};
  JournalControl journal{};
  TableState state;
};

TableMemory::TableMemory(std::string name, TableArena arena, std::uint64_t limit)
    : name_(std::move(name)),
      arena_(std::move(arena)),
      limit_(limit),
      journal_(arena_.reserved.data(), reinterpret_cast<Header*>(arena_.reserved.data())->journal) {
  arena_.reserved = arena_.reserved.first(std::min(arena_.reserved.size(), kMaxTableBytes));
}

TableMemory::Header& TableMemory::header() const {
  return *std::launder(reinterpret_cast<Header*>(arena_.reserved.data()));
}

const std::array<std::uint64_t, 2>& TableMemory::hash_keys() const { return header().hash_keys; }

void TableMemory::format(const TableShape& shape, std::uint64_t row_bytes,
                         std::uint64_t candidate_bytes, std::uint64_t first_version) {
  const std::uint64_t head = whole_pages(sizeof(Header) + shape.workers * sizeof(std::uint64_t));
  const std::uint64_t used = head + kFirstJournalBytes + kFirstIndexBytes;
  if (arena_.reserved.size() < used || (limit_ != 0 && limit_ < used))
    throw MemoryLimit(
        fmt::format("table '{}' needs at least {} bytes on each server, and the limit is {} bytes",
                    name_, used, limit_ != 0 ? limit_ : arena_.reserved.size()),
        {.advice = "Give a higher --ps_memory_limit."});
  arena_.grow(used);
  auto* made = new (arena_.reserved.data()) Header;
  made->shape = shape;
  made->hash_keys = {random_word(), random_word()};
  state_ = &made->state;
  ledger_ = {reinterpret_cast<std::uint64_t*>(made + 1), shape.workers};
  std::fill(ledger_.begin(), ledger_.end(), first_version);
  journal_.move_to(head, kFirstJournalBytes);
  state_->version = first_version;
  state_->used = used;
  state_->index = {head + kFirstJournalBytes, kFirstIndexBytes};
  std::memset(at(state_->index.offset), 0, kFirstIndexBytes);
  state_->pools[int(SlotKind::row)].slot_bytes = row_bytes;
  state_->pools[int(SlotKind::candidate)].slot_bytes = candidate_bytes;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  made->magic = kMagic;
}

void TableMemory::attach(const TableShape& shape) {
  const std::uint64_t head = whole_pages(sizeof(Header) + shape.workers * sizeof(std::uint64_t));
  if (arena_.reserved.size() < head)
    throw InvalidInput(fmt::format("{} bytes are no table '{}'", arena_.reserved.size(), name_));
  arena_.grow(head);
  if (header().magic != kMagic)
    throw InvalidInput(fmt::format("the memory given for table '{}' holds no table", name_));
  const TableShape& found = header().shape;
  if (found != shape)
    throw InvalidInput(fmt::format(
        "the memory given for table '{}' holds one of dimension {} with {} slots for {} workers, "
        "not of dimension {} with {} slots for {} workers",
        name_, found.dimension, found.slots, found.workers, shape.dimension, shape.slots,
        shape.workers));
  state_ = &header().state;
  ledger_ = {reinterpret_cast<std::uint64_t*>(&header() + 1), shape.workers};
  arena_.grow(std::max(journal_.first() + journal_.capacity(), state_->used));
  journal_.undo();
  finish_journal_move();
}

std::uint64_t TableMemory::begin_bytes() const {
  return UndoJournal::record_bytes(sizeof(TableState)) +
         UndoJournal::record_bytes(ledger_.size_bytes());
}

void TableMemory::begin() {
  COHORT_CHECK(!journal_.is_open(), "table '{}' is in the middle of a change", name_);
  journal_.save(state_, sizeof *state_);
  journal_.save(ledger_.data(), ledger_.size_bytes());
}

TableRun TableMemory::take(std::uint64_t bytes) {
  bytes = whole_pages(bytes);
  TableState& state = *state_;
  for (std::uint64_t i = 0; i < state.spare_count; ++i) {
    TableRun& spare = state.spares[i];
    if (spare.bytes < bytes) continue;
    const TableRun run = {spare.offset, bytes};
    spare = {spare.offset + bytes, spare.bytes - bytes};
    if (spare.bytes == 0) spare = state.spares[--state.spare_count];
    return run;
  }
  const std::uint64_t limit = limit_ == 0 ? arena_.reserved.size()
                                          : std::min<std::uint64_t>(limit_, arena_.reserved.size());
  if (bytes > limit || state.used > limit - bytes)
    throw MemoryLimit(
        fmt::format("table '{}' has {} rows in {} bytes on this server and needs {} bytes more, "
                    "over its limit of {} bytes",
                    name_, state.rows, state.used, bytes, limit),
        {.advice = "Use more servers or a higher --ps_memory_limit."});
  arena_.grow(state.used + bytes);
  const TableRun run = {state.used, bytes};
  state.used += bytes;
  return run;
}

void TableMemory::retire(const TableRun& run) {
  TableState& state = *state_;
  if (state.spare_count < state.spares.size()) {
    state.spares[state.spare_count++] = run;
    return;
  }
  // Each run is larger than those before it: what is lost here, if ever, is small.
  auto smallest = std::min_element(
      state.spares.begin(), state.spares.end(),
      [](const TableRun& one, const TableRun& other) { return one.bytes < other.bytes; });
  if (smallest->bytes < run.bytes) *smallest = run;
}

std::uint64_t TableMemory::allocate(SlotKind kind) {
  SlotPool& pool = state_->pools[int(kind)];
  if (pool.free_head == 0) {
    COHORT_CHECK(pool.next + pool.slot_bytes <= pool.end, "table '{}' reserved no slot", name_);
    const std::uint64_t slot = pool.next;
    pool.next += pool.slot_bytes;
    return slot;
  }
  const std::uint64_t slot = pool.free_head;
  journal_.save(at(slot), sizeof pool.free_head);
  std::memcpy(&pool.free_head, at(slot), sizeof pool.free_head);
  --pool.free_count;
  return slot;
}

void TableMemory::release(SlotKind kind, std::uint64_t slot) {
  SlotPool& pool = state_->pools[int(kind)];
  // The whole slot: allocate() may give it to another row before this change is committed.
  journal_.save(at(slot), pool.slot_bytes);
  std::memcpy(at(slot), &pool.free_head, sizeof pool.free_head);
  pool.free_head = slot;
  ++pool.free_count;
}

TableRun TableMemory::take_for_slots(std::uint64_t wanted, std::uint64_t chunk) {
  for (std::uint64_t i = 0; i < state_->spare_count; ++i)
    if (state_->spares[i].bytes >= chunk) return take(std::min(wanted, state_->spares[i].bytes));
  return take(wanted);
}

void TableMemory::reserve_slots(SlotKind kind, std::uint64_t count) {
  SlotPool& pool = state_->pools[int(kind)];
  if (pool.available() >= count) return;
  TableChange change(*this);
  const std::uint64_t chunk = whole_pages(std::max(kChunkBytes, 16 * pool.slot_bytes));
  while (pool.available() < count) {
    const std::uint64_t missing = (count - pool.available()) * pool.slot_bytes;
    const TableRun run = take_for_slots((missing + chunk - 1) / chunk * chunk, chunk);
    if (run.offset == pool.end) {
      pool.end += run.bytes;
      continue;
    }
    // What is left of the run before becomes free slots: memory in no use, so it needs no journal.
    for (; pool.next + pool.slot_bytes <= pool.end; pool.next += pool.slot_bytes) {
      std::memcpy(at(pool.next), &pool.free_head, sizeof pool.free_head);
      pool.free_head = pool.next;
      ++pool.free_count;
    }
    pool.next = run.offset;
    pool.end = run.offset + run.bytes;
  }
  change.commit();
}

void TableMemory::reserve_journal(std::uint64_t bytes) {
  if (journal_.capacity() >= bytes) return;
  {
    TableChange change(*this);
    state_->journal_next = take(bytes + bytes / 4);
    state_->journal_old = {journal_.first(), journal_.capacity()};
    change.commit();
  }
  finish_journal_move();
}

void TableMemory::finish_journal_move() {
  const TableRun next = state_->journal_next;
  if (next.bytes == 0) return;
  if (journal_.first() != next.offset) journal_.move_to(next.offset, next.bytes);
  TableChange change(*this);
  retire(state_->journal_old);
  state_->journal_next = state_->journal_old = {};
  change.commit();
}

}  // namespace cohort::ps

#include "cohort/ps/table/row_store.h"

#include <algorithm>
#include <cmath>

#include "cohort/base/data/counter_random.h"
#include "cohort/base/error.h"
#include "cohort/ps/rules/apply_update.h"
#include "cohort/ps/table/memory_limit.h"

namespace cohort::ps {
namespace {

// More than a gap's closing ever takes: at two thirds full, runs of entries are short.
constexpr std::uint64_t kEraseJournalBytes = 32 << 10;

}  // namespace

TableShape RowStore::shape(int workers) const {
  return {static_cast<std::uint64_t>(spec.dimension), static_cast<std::uint64_t>(slot_count(rule)),
          static_cast<std::uint64_t>(workers)};
}

std::uint64_t RowStore::row_floats() const {
  return static_cast<std::uint64_t>(spec.dimension) *
         static_cast<std::uint64_t>(1 + slot_count(rule));
}

std::uint64_t RowStore::row_bytes() const {
  return (sizeof(RowHead) + row_floats() * sizeof(float) + 15) / 16 * 16;
}

void RowStore::check_key(std::uint64_t key) const {
  if (spec.rows != 0 && key >= spec.rows)
    throw InvalidInput(
        fmt::format("key {} of table '{}', which has rows 0 to {}", key, spec.name, spec.rows - 1),
        {.advice = "Give the table more rows, or rows = 0 for any key."});
}

std::vector<std::uint64_t> RowStore::locate(const std::vector<std::uint64_t>& keys) {
  for (int attempt = 0;; ++attempt) {
    std::vector<std::uint64_t> slots(keys.size());
    std::uint64_t rows = 0;
    std::uint64_t candidates = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      slots[i] = index.find(keys[i]);
      if (slots[i] == 0)
        ++(spec.admit_after > 1 ? candidates : rows);
      else if (head(slots[i]).is_small())
        ++rows;
    }
    try {
      reserve(rows, candidates, keys.size());
      return slots;
    } catch (const MemoryLimit&) {
      if (attempt > 0 || spec.keep_for == 0) throw;
      sweep(index.positions());
    }
  }
}

void RowStore::reserve(std::uint64_t rows, std::uint64_t candidates, std::uint64_t touched) {
  // A new one takes a slot and a place in the index, and may leave a candidate's slot. Every key
  // counts as if it had a row already: at the memory limit the same update can then be made again.
  const std::uint64_t candidate_bytes =
      memory.state().pools[static_cast<int>(SlotKind::candidate)].slot_bytes;
  const std::uint64_t new_one =
      2 * KeyIndex::kJournalBytes + 2 * UndoJournal::record_bytes(candidate_bytes);
  memory.reserve_journal(memory.begin_bytes() + kEraseJournalBytes + new_one * (rows + candidates) +
                         UndoJournal::record_bytes(row_bytes()) * (touched + 1));
  index.reserve(memory.state().rows + memory.state().candidates + rows + candidates);
  memory.reserve_slots(SlotKind::row, rows);
  memory.reserve_slots(SlotKind::candidate, candidates);
}

void RowStore::sweep(std::uint64_t places) {
  if (spec.keep_for == 0) return;
  TableState& state = memory.state();
  const std::uint64_t enough = kEraseJournalBytes + UndoJournal::record_bytes(row_bytes());
  while (places > 0) {
    TableChange change(memory);
    while (places > 0 && memory.journal().left() >= enough) {
      if (state.sweep >= index.positions()) state.sweep = 0;
      const std::uint64_t slot = index.slot_at(state.sweep);
      if (slot == 0 || !expired(head(slot))) {
        ++state.sweep;
        --places;
        continue;
      }
      --(head(slot).is_candidate() ? state.candidates : state.rows);
      index.erase(state.sweep);
      memory.release(head(slot).is_small() ? SlotKind::candidate : SlotKind::row, slot);
    }
    change.commit();
  }
}

bool RowStore::update(std::uint64_t key, std::uint64_t slot, const float* gradient, double lr,
                      std::uint64_t version) {
  const auto admit_after = static_cast<std::uint64_t>(std::max(spec.admit_after, 1));
  if (slot == 0) {
    slot = add(key, admit_after > 1);
    if (admit_after == 1) initialise(slot);
  } else {
    memory.journal().save(&head(slot), head(slot).is_small() ? sizeof(RowHead) : row_bytes());
    if (expired(head(slot))) forget(slot);
  }
  ++head(slot).marks;
  head(slot).last_used = version;
  if (head(slot).is_candidate()) {
    if (head(slot).count() < admit_after)
      return std::all_of(gradient, gradient + spec.dimension,
                         [](float value) { return std::isfinite(value); });
    slot = promote(slot);
  }
  return apply_rule(slot, gradient, lr);
}

bool RowStore::apply_rule(std::uint64_t slot, const float* gradient, double lr) const {
  const auto dimension = static_cast<std::size_t>(spec.dimension);
  auto* at = reinterpret_cast<std::byte*>(values(slot));
  Update update;
  update.elements = dimension;
  update.gradient = reinterpret_cast<const std::byte*>(gradient);
  update.values = update.new_values = at;
  for (std::size_t i = 0; i < static_cast<std::size_t>(slot_count(rule)); ++i)
    update.slots[i] = update.new_slots[i] = at + (i + 1) * dimension * sizeof(float);
  update.number = head(slot).count();
  update.lr = lr;
  return apply(rule, update);
}

std::uint64_t RowStore::add(std::uint64_t key, bool candidate) {
  const std::uint64_t slot = memory.allocate(candidate ? SlotKind::candidate : SlotKind::row);
  head(slot) = {key, 0, candidate ? RowHead::kCandidate | RowHead::kSmall : 0};
  index.insert(key, slot);
  ++(candidate ? memory.state().candidates : memory.state().rows);
  return slot;
}

void RowStore::forget(std::uint64_t slot) {
  RowHead& row = head(slot);
  if (row.is_candidate()) {
    row.marks &= RowHead::kCandidate | RowHead::kSmall;
  } else if (spec.admit_after > 1) {
    row.marks = RowHead::kCandidate;
    --memory.state().rows;
    ++memory.state().candidates;
  } else {
    row.marks = 0;
    initialise(slot);
  }
}

std::uint64_t RowStore::promote(std::uint64_t slot) {
  const RowHead old = head(slot);
  --memory.state().candidates;
  ++memory.state().rows;
  if (old.is_small()) {
    const std::uint64_t made = memory.allocate(SlotKind::row);
    index.replace(old.key, slot, made);
    memory.release(SlotKind::candidate, slot);
    slot = made;
  }
  head(slot) = {old.key, old.last_used, 1};
  initialise(slot);
  return slot;
}

void RowStore::initialise(std::uint64_t slot) const {
  const auto dimension = static_cast<std::size_t>(spec.dimension);
  float* at = values(slot);
  initial_values(head(slot).key, at);
  for (int i = 0; i < slot_count(rule); ++i) {
    at += dimension;
    std::fill(at, at + dimension, static_cast<float>(initial_slot_value(rule, i)));
  }
}

void RowStore::initial_values(std::uint64_t key, float* values) const {
  CounterRandom random(spec.seed, RandomStream::kEmbeddingRow, key);
  const auto scale = static_cast<float>(spec.initial_scale);
  for (int i = 0; i < spec.dimension; ++i)
    values[i] = scale * (2.0f * random.uniform_float() - 1.0f);
}

}  // namespace cohort::ps

#include "cohort/ps/table/sparse_table.h"

#include <algorithm>
#include <cstring>

#include "cohort/base/error.h"
#include "cohort/ps/table/row_snapshot.h"

namespace cohort::ps {
namespace {

bool strictly_ascending(const std::vector<std::uint64_t>& keys) {
  return std::adjacent_find(keys.begin(), keys.end(), std::greater_equal<>()) == keys.end();
}

}  // namespace

SparseTable::SparseTable(const TableSpec& spec, const UpdateRule& rule, TableArena arena,
                         std::uint64_t memory_limit)
    : store_(spec, rule, std::move(arena), memory_limit) {}

std::unique_ptr<SparseTable> SparseTable::create(const TableSpec& spec, const UpdateRule& rule,
                                                 int workers, TableArena arena,
                                                 std::uint64_t memory_limit,
                                                 std::uint64_t first_version) {
  std::unique_ptr<SparseTable> table(new SparseTable(spec, rule, std::move(arena), memory_limit));
  RowStore& store = table->store_;
  store.memory.format(store.shape(workers), store.row_bytes(), (sizeof(RowHead) + 15) / 16 * 16,
                      first_version);
  store.reserve(0, 0, 0);  // the journal that every sweep relies on
  return table;
}

std::unique_ptr<SparseTable> SparseTable::open(const TableSpec& spec, const UpdateRule& rule,
                                               int workers, TableArena arena,
                                               std::uint64_t memory_limit) {
  std::unique_ptr<SparseTable> table(new SparseTable(spec, rule, std::move(arena), memory_limit));
  table->store_.memory.attach(table->store_.shape(workers));
  return table;
}

void SparseTable::read(std::span<const std::uint64_t> keys, float* values) const {
  const auto dimension = static_cast<std::size_t>(store_.spec.dimension);
  for (std::uint64_t key : keys) {
    store_.check_key(key);
    const std::uint64_t slot = store_.index.find(key);
    if (slot != 0 && !store_.head(slot).is_candidate() && !store_.expired(store_.head(slot)))
      std::memcpy(values, store_.values(slot), dimension * sizeof(float));
    else if (store_.spec.admit_after > 1)
      std::fill(values, values + dimension, 0.0f);
    else
      store_.initial_values(key, values);
    values += dimension;
  }
}

bool SparseTable::prepare(const RowGradients& gradients, double lr, std::uint64_t version,
                          std::span<const std::pair<int, std::uint64_t>> ledger) {
  const auto dimension = static_cast<std::size_t>(store_.spec.dimension);
  COHORT_CHECK(!prepared_, "table '{}' has an update that is not committed", store_.spec.name);
  COHORT_CHECK(version > this->version(), "version {} of table '{}' after {}", version,
               store_.spec.name, this->version());
  if (gradients.values.size() != gradients.keys.size() * dimension)
    throw InvalidInput(fmt::format("{} gradients for {} rows of table '{}', whose dimension is {}",
                                   gradients.values.size(), gradients.keys.size(), store_.spec.name,
                                   dimension));
  for (std::uint64_t key : gradients.keys) store_.check_key(key);
  if (!strictly_ascending(gradients.keys)) {
    const RowGradients* all[] = {&gradients};
    return prepare(merge(all, store_.spec.dimension, 1), lr, version, ledger);
  }

  // Twice through the index while a row grows old.
  if (store_.spec.keep_for != 0)
    store_.sweep(2 * store_.index.positions() / store_.spec.keep_for + 64);
  const std::vector<std::uint64_t> slots = store_.locate(gradients.keys);
  TableChange change(store_.memory);
  bool finite = true;
  for (std::size_t i = 0; i < slots.size(); ++i)
    finite &= store_.update(gradients.keys[i], slots[i], gradients.values.data() + i * dimension,
                            lr, version);
  change.leave_open();
  prepared_ = true;
  next_version_ = version;
  next_ledger_.assign(ledger.begin(), ledger.end());
  return finite;
}

void SparseTable::commit() {
  COHORT_CHECK(prepared_, "table '{}' has no update to commit", store_.spec.name);
  store_.memory.state().version = next_version_;
  for (const auto& [worker, sequence] : next_ledger_)
    store_.memory.ledger()[static_cast<std::size_t>(worker)] = sequence;
  store_.memory.commit();
  prepared_ = false;
}

void SparseTable::roll_back() {
  COHORT_CHECK(prepared_, "table '{}' has no update to take back", store_.spec.name);
  store_.memory.undo();
  prepared_ = false;
}

void SparseTable::set_progress(std::uint64_t version, std::span<const std::uint64_t> ledger) {
  COHORT_CHECK(ledger.size() == store_.memory.ledger().size(), "a ledger of {} workers, not {}",
               ledger.size(), store_.memory.ledger().size());
  TableChange change(store_.memory);
  store_.memory.state().version = version;
  std::copy(ledger.begin(), ledger.end(), store_.memory.ledger().begin());
  change.commit();
}

void SparseTable::write_snapshot(const std::function<void(std::string_view piece)>& write) const {
  COHORT_CHECK(!prepared_, "a snapshot of table '{}' during an update", spec().name);
  write_rows(store_, write);
}

void SparseTable::apply_snapshot_piece(std::string_view piece,
                                       const std::function<bool(std::uint64_t key)>& mine) {
  add_rows(store_, piece, mine);
}

}  // namespace cohort::ps

#include "cohort/ps/table/sparse_table.h"

#include <algorithm>
#include <cstring>

#include "cohort/base/error.h"
#include "cohort/ps/table/sparse_table_state.h"

namespace cohort::ps {
namespace {

bool strictly_ascending(const std::vector<std::uint64_t>& keys) {
  return std::adjacent_find(keys.begin(), keys.end(), std::greater_equal<>()) == keys.end();
}

}  // namespace

SparseTable::SparseTable() = default;
SparseTable::~SparseTable() = default;

std::unique_ptr<SparseTable> SparseTable::create(const TableSpec& spec, const UpdateRule& rule,
                                                 int workers, Room room, std::uint64_t memory_limit,
                                                 std::uint64_t first_version) {
  std::unique_ptr<SparseTable> table(new SparseTable);
  table->state_ = std::make_unique<State>(spec, rule, std::move(room), memory_limit);
  State& state = *table->state_;
  state.memory.format(state.shape(workers), state.row_bytes(), (sizeof(RowHead) + 15) / 16 * 16,
                      first_version);
  state.reserve(0, 0, 0);  // the journal that every sweep relies on
  return table;
}

std::unique_ptr<SparseTable> SparseTable::open(const TableSpec& spec, const UpdateRule& rule,
                                               int workers, Room room, std::uint64_t memory_limit) {
  std::unique_ptr<SparseTable> table(new SparseTable);
  table->state_ = std::make_unique<State>(spec, rule, std::move(room), memory_limit);
  State& state = *table->state_;
  state.memory.attach(state.shape(workers));
  return table;
}

const TableSpec& SparseTable::spec() const { return state_->spec; }
std::uint64_t SparseTable::version() const { return state_->memory.state().version; }
std::uint64_t SparseTable::ledger(int worker) const {
  return state_->memory.ledger()[static_cast<std::size_t>(worker)];
}
std::uint64_t SparseTable::rows() const { return state_->memory.state().rows; }
std::uint64_t SparseTable::candidates() const { return state_->memory.state().candidates; }
std::uint64_t SparseTable::bytes() const { return state_->memory.state().used; }

void SparseTable::read(std::span<const std::uint64_t> keys, float* values) const {
  const State& state = *state_;
  const auto dimension = static_cast<std::size_t>(state.spec.dimension);
  for (std::uint64_t key : keys) {
    state.check_key(key);
    const std::uint64_t slot = state.index.find(key);
    if (slot != 0 && !state.head(slot).is_candidate() && !state.expired(state.head(slot)))
      std::memcpy(values, state.values(slot), dimension * sizeof(float));
    else if (state.spec.admit_after > 1)
      std::fill(values, values + dimension, 0.0f);
    else
      state.initial_values(key, values);
    values += dimension;
  }
}

bool SparseTable::prepare(const RowGradients& gradients, double lr, std::uint64_t version,
                          std::span<const std::pair<int, std::uint64_t>> ledger) {
  State& state = *state_;
  const auto dimension = static_cast<std::size_t>(state.spec.dimension);
  COHORT_CHECK(!state.prepared, "table '{}' has an update that is not committed", state.spec.name);
  COHORT_CHECK(version > this->version(), "version {} of table '{}' after {}", version,
               state.spec.name, this->version());
  if (gradients.values.size() != gradients.keys.size() * dimension)
    throw InvalidInput(fmt::format("{} gradients for {} rows of table '{}', whose dimension is {}",
                                   gradients.values.size(), gradients.keys.size(), state.spec.name,
                                   dimension));
  for (std::uint64_t key : gradients.keys) state.check_key(key);
  if (!strictly_ascending(gradients.keys)) {
    const RowGradients* all[] = {&gradients};
    return prepare(merge(all, state.spec.dimension, 1), lr, version, ledger);
  }

  // Twice through the index while a row grows old.
  if (state.spec.keep_for != 0) state.sweep(2 * state.index.positions() / state.spec.keep_for + 64);
  const std::vector<std::uint64_t> slots = state.locate(gradients.keys);
  TableChange change(state.memory);
  bool finite = true;
  for (std::size_t i = 0; i < slots.size(); ++i)
    finite &= state.update(gradients.keys[i], slots[i], gradients.values.data() + i * dimension, lr,
                           version);
  change.leave_open();
  state.prepared = true;
  state.next_version = version;
  state.next_ledger.assign(ledger.begin(), ledger.end());
  return finite;
}

void SparseTable::commit() {
  State& state = *state_;
  COHORT_CHECK(state.prepared, "table '{}' has no update to commit", state.spec.name);
  state.memory.state().version = state.next_version;
  for (const auto& [worker, sequence] : state.next_ledger)
    state.memory.ledger()[static_cast<std::size_t>(worker)] = sequence;
  state.memory.commit();
  state.prepared = false;
}

void SparseTable::roll_back() {
  COHORT_CHECK(state_->prepared, "table '{}' has no update to take back", state_->spec.name);
  state_->memory.undo();
  state_->prepared = false;
}

void SparseTable::set_progress(std::uint64_t version, std::span<const std::uint64_t> ledger) {
  State& state = *state_;
  COHORT_CHECK(ledger.size() == state.memory.ledger().size(), "a ledger of {} workers, not {}",
               ledger.size(), state.memory.ledger().size());
  TableChange change(state.memory);
  state.memory.state().version = version;
  std::copy(ledger.begin(), ledger.end(), state.memory.ledger().begin());
  change.commit();
}

}  // namespace cohort::ps

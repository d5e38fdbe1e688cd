#include "cohort/ps/table/key_index.h"

#include <bit>
#include <cstring>

#include "cohort/base/error.h"
#include "cohort/ps/table/memory_limit.h"

namespace cohort::ps {
namespace {

constexpr int kHashBits = 30;
constexpr int kPlaceBits = 64 - kHashBits;
constexpr std::uint64_t kGranule = 16;

std::uint64_t slot_of(std::uint64_t entry) {
  return (entry & ((std::uint64_t{1} << kPlaceBits) - 1)) * kGranule;
}

// The finaliser of splitmix64: every bit of `x` reaches every bit of the result.
std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 27;
  x *= 0x94d049bb133111eb;
  return x ^ x >> 31;
}

std::uint64_t entry_of(std::uint64_t hash, std::uint64_t slot) {
  return hash >> kPlaceBits << kPlaceBits | slot / kGranule;
}

bool same_hash(std::uint64_t entry, std::uint64_t hash) {
  return (entry ^ hash) >> kPlaceBits == 0;
}

}  // namespace

std::uint64_t KeyIndex::hash(std::uint64_t key) const {
  const auto& keys = memory_.hash_keys();
  return mix(mix(key + keys[0]) ^ keys[1]);
}

std::uint64_t* KeyIndex::entries() const {
  return reinterpret_cast<std::uint64_t*>(memory_.at(memory_.state().index.offset));
}

std::uint64_t KeyIndex::positions() const {
  return memory_.state().index.bytes / sizeof(std::uint64_t);
}

std::uint64_t KeyIndex::slot_at(std::uint64_t position) const {
  return slot_of(entries()[position]);
}

std::uint64_t KeyIndex::home(std::uint64_t entry) const {
  return entry >> (64 - std::countr_zero(positions()));
}

void KeyIndex::write(std::uint64_t position, std::uint64_t entry) {
  std::uint64_t* at = entries() + position;
  memory_.journal().save(at, sizeof *at);
  *at = entry;
}

std::uint64_t KeyIndex::find(std::uint64_t key) const {
  const std::uint64_t hashed = hash(key);
  const std::uint64_t mask = positions() - 1;
  const std::uint64_t* all = entries();
  for (std::uint64_t i = home(hashed); all[i] != 0; i = (i + 1) & mask) {
    if (!same_hash(all[i], hashed)) continue;
    std::uint64_t found;
    std::memcpy(&found, memory_.at(slot_of(all[i])), sizeof found);
    if (found == key) return slot_of(all[i]);
  }
  return 0;
}

void KeyIndex::insert(std::uint64_t key, std::uint64_t slot) {
  const std::uint64_t hashed = hash(key);
  const std::uint64_t mask = positions() - 1;
  std::uint64_t i = home(hashed);
  while (entries()[i] != 0) i = (i + 1) & mask;
  write(i, entry_of(hashed, slot));
}

void KeyIndex::replace(std::uint64_t key, std::uint64_t slot, std::uint64_t by) {
  const std::uint64_t hashed = hash(key);
  const std::uint64_t mask = positions() - 1;
  std::uint64_t i = home(hashed);
  while (entries()[i] != entry_of(hashed, slot)) {
    COHORT_CHECK(entries()[i] != 0, "key {} is not in the index", key);
    i = (i + 1) & mask;
  }
  write(i, entry_of(hashed, by));
}

void KeyIndex::erase(std::uint64_t position) {
  const std::uint64_t mask = positions() - 1;
  std::uint64_t gap = position;
  for (std::uint64_t i = (gap + 1) & mask; entries()[i] != 0; i = (i + 1) & mask) {
    // An entry may move to the gap unless its home lies behind it.
    const bool reaches = ((i - home(entries()[i])) & mask) >= ((i - gap) & mask);
    if (!reaches) continue;
    write(gap, entries()[i]);
    gap = i;
  }
  write(gap, 0);
}

void KeyIndex::reserve(std::uint64_t count) {
  const std::uint64_t needed = std::bit_ceil(count + count / 2 + 1);
  if (needed <= positions()) return;
  if (needed > std::uint64_t{1} << kHashBits)
    throw MemoryLimit(fmt::format("{} keys of one table on one server; at most {} are possible",
                                  count, (std::uint64_t{1} << kHashBits) / 3 * 2),
                      {.advice = "Use more servers."});
  TableChange change(memory_);
  const TableRun run = memory_.take(needed * sizeof(std::uint64_t));
  auto* built = reinterpret_cast<std::uint64_t*>(memory_.at(run.offset));
  std::memset(built, 0, run.bytes);
  const int shift = 64 - std::countr_zero(needed);
  for (std::uint64_t old = 0; old < positions(); ++old) {
    const std::uint64_t entry = entries()[old];
    if (entry == 0) continue;
    std::uint64_t i = entry >> shift;
    while (built[i] != 0) i = (i + 1) & (needed - 1);
    built[i] = entry;
  }
  memory_.retire(memory_.state().index);
  memory_.state().index = run;
  memory_.state().sweep = 0;
  change.commit();
}

}  // namespace cohort::ps

#include "cohort/ps/table/row_snapshot.h"

#include <algorithm>
#include <cstring>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/error.h"

// A piece: magic u32 | dimension u32 | slots u32 | count u32, then for each key
//   key u64 | age u64 | marks u64 | values and slots f32[...] unless it is a candidate.
namespace cohort::ps {
namespace {

constexpr std::uint32_t kRowsMagic = 0x57524843;  // "CHRW"
constexpr std::size_t kHeadBytes = 16;
constexpr std::size_t kCountAt = 12;
constexpr std::size_t kPieceBytes = 1 << 20;

InvalidInput broken(const TableSpec& spec, const std::string& how) {
  return InvalidInput(fmt::format("a piece of table '{}' {}", spec.name, how));
}

struct Row {
  RowHead head;
  const char* values = nullptr;
};

}  // namespace

void write_rows(const RowStore& store, const std::function<void(std::string_view piece)>& write) {
  const std::uint64_t version = store.memory.state().version;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> rows;
  rows.reserve(store.memory.state().rows + store.memory.state().candidates);
  for (std::uint64_t i = 0; i < store.index.positions(); ++i) {
    const std::uint64_t slot = store.index.slot_at(i);
    if (slot != 0 && !store.expired(store.head(slot)))
      rows.emplace_back(store.head(slot).key, slot);
  }
  std::sort(rows.begin(), rows.end());

  std::string piece;
  std::uint32_t count = 0;
  const auto finish = [&] {
    if (count == 0) return;
    put_integer(count, piece.data() + kCountAt);
    write(piece);
    piece.clear();
    count = 0;
  };
  for (const auto& [key, slot] : rows) {
    ByteWriter out(piece);
    const RowHead& row = store.head(slot);
    if (count == 0)
      out.integer(kRowsMagic)
          .integer(static_cast<std::uint32_t>(store.spec.dimension))
          .integer(static_cast<std::uint32_t>(slot_count(store.rule)))
          .integer(count);
    out.integer(key).integer(version - row.last_used).integer(row.marks & ~RowHead::kSmall);
    if (!row.is_candidate())
      piece.append(reinterpret_cast<const char*>(store.values(slot)),
                   store.row_floats() * sizeof(float));
    ++count;
    if (piece.size() >= kPieceBytes) finish();
  }
  finish();
}

void add_rows(RowStore& store, std::string_view piece,
              const std::function<bool(std::uint64_t key)>& mine) {
  const std::uint64_t value_bytes = store.row_floats() * sizeof(float);
  if (piece.size() < kHeadBytes) throw broken(store.spec, "is cut off");
  ByteReader in(piece);
  if (in.integer<std::uint32_t>() != kRowsMagic) throw broken(store.spec, "is none");
  const auto dimension = in.integer<std::uint32_t>();
  const auto slots = in.integer<std::uint32_t>();
  const auto count = in.integer<std::uint32_t>();
  if (dimension != static_cast<std::uint32_t>(store.spec.dimension) ||
      slots != static_cast<std::uint32_t>(slot_count(store.rule)))
    throw broken(store.spec,
                 fmt::format("has dimension {} and {} slots of an optimizer, not {} "
                             "and {}",
                             dimension, slots, store.spec.dimension, slot_count(store.rule)));
  std::vector<Row> rows;
  std::vector<std::uint64_t> keys;
  const char* at = piece.data() + kHeadBytes;
  const char* end = piece.data() + piece.size();
  for (std::uint32_t i = 0; i < count; ++i) {
    if (static_cast<std::size_t>(end - at) < sizeof(RowHead))
      throw broken(store.spec, "is cut off");
    Row row;
    std::memcpy(&row.head, at, sizeof row.head);
    at += sizeof row.head;
    if (!row.head.is_candidate()) {
      if (static_cast<std::uint64_t>(end - at) < value_bytes)
        throw broken(store.spec, "is cut off");
      row.values = at;
      at += value_bytes;
    }
    store.check_key(row.head.key);
    if (!keys.empty() && row.head.key <= keys.back()) throw broken(store.spec, "is out of order");
    if (mine && !mine(row.head.key)) continue;
    rows.push_back(row);
    keys.push_back(row.head.key);
  }
  if (at != end) throw broken(store.spec, "has bytes left over");

  const auto candidates = static_cast<std::uint64_t>(std::count_if(
      rows.begin(), rows.end(), [](const Row& row) { return row.head.is_candidate(); }));
  store.reserve(rows.size() - candidates, candidates, 0);
  TableChange change(store.memory);
  for (const Row& row : rows) {
    if (store.index.find(row.head.key) != 0)
      throw broken(store.spec, fmt::format("has key {}, which is there already", row.head.key));
    const bool candidate = row.head.is_candidate();
    const std::uint64_t slot = store.add(row.head.key, candidate);
    store.head(slot).last_used = store.memory.state().version - row.head.last_used;
    store.head(slot).marks |= row.head.count();
    if (!candidate) std::memcpy(store.values(slot), row.values, value_bytes);
  }
  change.commit();
}

}  // namespace cohort::ps

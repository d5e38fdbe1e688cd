#include "cohort/ps/model/placement.h"

#include <fmt/format.h>

#include <algorithm>

#include "cohort/base/error.h"

namespace cohort::ps {
namespace {

constexpr std::uint64_t kUnitBytes = 64;

// Deals slices of one placement out; remembers how much every server has.
class Dealer {
 public:
  explicit Dealer(int servers) : bytes_(static_cast<std::size_t>(servers), 0) {}

  // Cuts the block into `count` runs that differ by one unit at most, a multiple of 64 bytes each
  // but the last, and gives run i to `server_of(i)`.
  template <typename ServerOf>
  void cut(const Block& block, int number, std::uint64_t count, ServerOf server_of) {
    const std::uint64_t in_unit = kUnitBytes / size_of(block.type);
    const std::uint64_t units = (block.elements + in_unit - 1) / in_unit;
    const std::uint64_t larger = units % count;
    std::uint64_t offset = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t run = (units / count + (i < larger ? 1 : 0)) * in_unit;
      const std::uint64_t elements = std::min(run, block.elements - offset);
      const int server = server_of(i);
      slices_.push_back({server, number, offset, elements});
      bytes_[static_cast<std::size_t>(server)] += elements * size_of(block.type);
      offset += elements;
    }
  }

  // The server that has least, the first of several.
  int least() const {
    return static_cast<int>(std::min_element(bytes_.begin(), bytes_.end()) - bytes_.begin());
  }

  std::vector<Slice> take() { return std::move(slices_); }

 private:
  std::vector<std::uint64_t> bytes_;
  std::vector<Slice> slices_;
};

std::string mebibytes_text(std::uint64_t bytes) {
  return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string parts_of(const Block& block, const Slice& slice) {
  const std::uint64_t end = slice.offset + slice.elements;
  std::string text;
  int named = 0;
  int more = 0;
  for (const Part& part : block.parts) {
    const std::uint64_t first = std::max(part.offset, slice.offset);
    const std::uint64_t last = std::min(part.offset + part.elements, end);
    if (first >= last) continue;
    if (named == 4) {
      ++more;
      continue;
    }
    if (named++ > 0) text += ", ";
    text += part.name;
    if (last - first != part.elements)
      text += fmt::format("[{}..{})", first - part.offset, last - part.offset);
  }
  if (more > 0) text += fmt::format(" and {} more", more);
  return text;
}

}  // namespace

std::vector<Slice> place(const ModelSpec& spec, int servers) {
  COHORT_CHECK(servers >= 1, "a placement over {} servers", servers);
  const auto all = static_cast<std::uint64_t>(servers);
  Dealer dealer(servers);
  for (std::size_t b = 0; b < spec.blocks.size(); ++b) {
    const Block& block = spec.blocks[b];
    if (block.elements == 0) continue;
    const std::uint64_t bytes = block.elements * size_of(block.type);
    const std::uint64_t needed = (bytes + kMaxSliceBytes - 1) / kMaxSliceBytes;
    const int number = static_cast<int>(b);
    if (bytes >= kMinSplitBytes * all) {
      const int first = dealer.least();
      const std::uint64_t rounds = (needed + all - 1) / all;
      dealer.cut(block, number, rounds * all, [&](std::uint64_t i) {
        return static_cast<int>((static_cast<std::uint64_t>(first) + i) % all);
      });
    } else {
      dealer.cut(block, number, needed, [&](std::uint64_t) { return dealer.least(); });
    }
  }
  return dealer.take();
}

int slot_count(const ModelSpec& spec, const Slice& slice) {
  int slots = 0;
  for (const Part& part : spec.blocks.at(static_cast<std::size_t>(slice.block)).parts)
    if (part.elements > 0 && part.offset < slice.offset + slice.elements &&
        part.offset + part.elements > slice.offset)
      slots = std::max(slots, slot_count(spec.groups.at(static_cast<std::size_t>(part.group))));
  return slots;
}

std::string describe(const ModelSpec& spec, std::span<const Slice> slices, int servers) {
  const auto bytes_of = [&](const Slice& slice) {
    return slice.elements * size_of(spec.blocks.at(static_cast<std::size_t>(slice.block)).type);
  };
  struct Share {
    std::uint64_t bytes = 0, slices = 0;
  };
  std::vector<Share> shares(static_cast<std::size_t>(servers));
  std::uint64_t total = 0;
  for (const Slice& slice : slices) {
    Share& share = shares.at(static_cast<std::size_t>(slice.server));
    share.bytes += bytes_of(slice);
    share.slices += 1;
    total += bytes_of(slice);
  }
  std::string text =
      fmt::format("{:<8} {:>12} {:>7} {:>7}\n", "server", "values", "share", "slices");
  for (std::size_t s = 0; s < shares.size(); ++s)
    text += fmt::format(
        "{:<8} {:>12} {:>6.1f}% {:>7}\n", fmt::format("ps/{}", s), mebibytes_text(shares[s].bytes),
        total == 0 ? 0.0
                   : 100.0 * static_cast<double>(shares[s].bytes) / static_cast<double>(total),
        shares[s].slices);
  if (!slices.empty())
    text += fmt::format("\n{:>5}  {:<8} {:>12}  {}\n", "slice", "server", "values", "parameters");
  for (std::size_t i = 0; i < slices.size(); ++i)
    text +=
        fmt::format("{:>5}  {:<8} {:>12}  {}\n", i, fmt::format("ps/{}", slices[i].server),
                    mebibytes_text(bytes_of(slices[i])),
                    parts_of(spec.blocks[static_cast<std::size_t>(slices[i].block)], slices[i]));
  if (!spec.tables.empty()) text += "\n";
  for (const TableSpec& table : spec.tables) {
    text += fmt::format("table {}: ", table.name);
    text += table.rows > 0 ? fmt::format("{} rows of {} values", table.rows, table.dimension)
                           : fmt::format("rows of {} values, made as keys appear", table.dimension);
    text += servers == 1 ? ", all on ps/0\n"
                         : fmt::format(", spread by key over ps/0 to ps/{}\n", servers - 1);
  }
  return text;
}

int server_of_key(std::uint64_t key, int servers) {
  // The finaliser of splitmix64: neighbouring keys land anywhere.
  key += 0x9e3779b97f4a7c15;
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
  key = (key ^ (key >> 27)) * 0x94d049bb133111eb;
  key ^= key >> 31;
  __extension__ using Wide = unsigned __int128;
  return static_cast<int>((static_cast<Wide>(key) * static_cast<unsigned>(servers)) >> 64);
}

}  // namespace cohort::ps

#include "cohort/ps/state/server_share.h"

#include <algorithm>

namespace cohort::ps {
namespace {

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

ServerShare::ServerShare(const ModelSpec& spec, int server, int servers) {
  const std::vector<Slice> all = place(spec, servers);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].server != server) continue;
    const Block& block = spec.blocks[static_cast<std::size_t>(all[i].block)];
    slices.push_back(all[i]);
    numbers.push_back(static_cast<int>(i));
    shapes.push_back({block.type, all[i].elements, slot_count(spec, all[i])});
    runs.push_back(runs_of(block, all[i]));
  }
}

}  // namespace cohort::ps

#include "cohort/ps/client/client_layout.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/collective/reduction/shards.h"
#include "cohort/ps/model/model_spec_text.h"

namespace cohort::ps {

namespace {

constexpr std::uint64_t kAlignment = 64;

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

}  // namespace

ClientLayout::ClientLayout(const ModelSpec& model, int worker, int servers)
    : spec(model),
      spec_text(to_text(model)),
      slices(place(model, servers)),
      of_block(model.blocks.size()),
      of_server(static_cast<std::size_t>(servers)),
      outbox_bytes(static_cast<std::size_t>(servers), 0),
      inbox_bytes(static_cast<std::size_t>(servers), 0) {
  const auto own = collective::shards_of(worker, model.workers, model.shards);
  nodes = static_cast<int>(collective::ShardPlan(model.shards, own).nodes().size());
  for (const Slice& slice : slices) {
    const auto server = static_cast<std::size_t>(slice.server);
    const auto block = static_cast<std::size_t>(slice.block);
    SliceLocation one;
    one.slice = slice;
    one.local = static_cast<int>(of_server[server].size());
    one.type = model.blocks[block].type;
    one.element_bytes = size_of(one.type);
    one.bytes = slice.elements * one.element_bytes;
    one.outbox_offset = outbox_bytes[server];
    one.inbox_offset = inbox_bytes[server];
    one.slots = slot_count(model, slice);
    outbox_bytes[server] += aligned(one.bytes * static_cast<std::uint64_t>(nodes));
    inbox_bytes[server] += aligned(one.bytes);
    of_server[server].push_back(static_cast<int>(placed.size()));
    of_block[block].push_back(static_cast<int>(placed.size()));
    placed.push_back(one);
  }
}

OutboxMemory::OutboxMemory()
    : file_(::memfd_create("cohort-gradients", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (!file_ || ::fcntl(file_.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0)
    throw SystemError("cannot make a memory file for gradients", errno);
}

void OutboxMemory::grow(std::uint64_t bytes) {
  if (::ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(file_.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw SystemError(fmt::format("cannot have {} bytes of memory for gradients", bytes), errno);
  if (bytes == 0) return;
  bytes_ = bytes;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (memory == MAP_FAILED) throw SystemError("cannot map memory for gradients", errno);
  memory_ = static_cast<std::byte*>(memory);
}

OutboxMemory::~OutboxMemory() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

RunPlan::RunPlan(const ClientLayout& layout, std::span<const BlockRun> runs)
    : runs_(runs.begin(), runs.end()), first_(layout.slices.size() + 1, 0) {
  std::vector<std::vector<ReadRun>> by_slice(layout.slices.size());
  for (const BlockRun& run : runs) {
    if (run.block < 0 || static_cast<std::size_t>(run.block) >= layout.of_block.size())
      throw InvalidInput(
          fmt::format("block {} of a model with {} blocks", run.block, layout.of_block.size()));
    const std::uint64_t elements = layout.spec.blocks[static_cast<std::size_t>(run.block)].elements;
    if (run.offset > elements || run.elements > elements - run.offset)
      throw InvalidInput(fmt::format("elements {} + {} of block {}, which has {}", run.offset,
                                     run.elements, run.block, elements));
    for (const int number : layout.of_block[static_cast<std::size_t>(run.block)]) {
      const SliceLocation& placed = layout.placed[static_cast<std::size_t>(number)];
      const std::uint64_t from = std::max(run.offset, placed.slice.offset);
      const std::uint64_t to =
          std::min(run.offset + run.elements, placed.slice.offset + placed.slice.elements);
      if (from >= to) continue;
      by_slice[static_cast<std::size_t>(number)].push_back(
          {from - placed.slice.offset, to - from,
           run.memory + (from - run.offset) * placed.element_bytes});
    }
  }
  for (std::size_t i = 0; i < by_slice.size(); ++i) {
    first_[i] = pieces_.size();
    pieces_.insert(pieces_.end(), by_slice[i].begin(), by_slice[i].end());
    if (!by_slice[i].empty()) slices_.push_back(static_cast<int>(i));
  }
  first_.back() = pieces_.size();
}

bool RunPlan::is_of(std::span<const BlockRun> runs) const {
  return std::equal(runs.begin(), runs.end(), runs_.begin(), runs_.end(),
                    [](const BlockRun& a, const BlockRun& b) {
                      return a.block == b.block && a.offset == b.offset &&
                             a.elements == b.elements && a.memory == b.memory;
                    });
}

std::span<const ReadRun> RunPlan::of_slice(int slice) const {
  const auto i = static_cast<std::size_t>(slice);
  return std::span(pieces_).subspan(first_[i], first_[i + 1] - first_[i]);
}

}  // namespace cohort::ps

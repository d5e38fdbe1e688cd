#include "cohort/ps/state/segment_reader.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "cohort/base/error.h"
#include "cohort/collective/reduction/kernels.h"
#include "cohort/ps/state/segment_layout.h"

namespace cohort::ps {

namespace {

void copy(const SliceLayout& where, const std::byte* side, std::span<const ReadRun> runs) {
  const std::size_t size = size_of(where.shape.type);
  for (const ReadRun& run : runs)
    collective::copy_bytes(run.to, side + where.values + run.first * size, run.count * size);
}

}  // namespace

struct SegmentReader::State {
  explicit State(UniqueFd file) : layout(read_layout(file.get(), spec)) {
    void* memory = ::mmap(nullptr, layout.tables, PROT_READ, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) throw SystemError("cannot map a parameter server's memory", errno);
    base = static_cast<const std::byte*>(memory);
  }
  ~State() { ::munmap(const_cast<std::byte*>(base), layout.tables); }

  const SliceLayout& slice(int slice) const {
    COHORT_CHECK(slice >= 0 && static_cast<std::size_t>(slice) < layout.slices.size(),
                 "slice {} of {}", slice, layout.slices.size());
    return layout.slices[static_cast<std::size_t>(slice)];
  }
  // The same; every run must be within it.
  const SliceLayout& checked(int number, std::span<const ReadRun> runs) const {
    const SliceLayout& where = slice(number);
    for (const ReadRun& run : runs)
      COHORT_CHECK(
          run.first <= where.shape.elements && run.count <= where.shape.elements - run.first,
          "elements {} + {} of slice {}, which has {}", run.first, run.count, number,
          where.shape.elements);
    return where;
  }
  const std::atomic<std::uint64_t>& word(int slice) const {
    return *reinterpret_cast<const std::atomic<std::uint64_t>*>(base + layout.state_word(slice));
  }

  // Calls copy(side); see read_whole().
  template <typename Copy>
  std::uint64_t read(int number, const Copy& copy) const {
    const SliceLayout& where = slice(number);
    return read_whole(word(number), [&](std::uint64_t version) {
      copy(base + where.first_side + (version & 1) * where.side_bytes);
    });
  }

  std::string spec;
  SegmentLayout layout;
  const std::byte* base = nullptr;
};

SegmentReader::SegmentReader(UniqueFd file) : state_(std::make_unique<State>(std::move(file))) {}
SegmentReader::~SegmentReader() = default;

std::uint64_t SegmentReader::version(int slice) const {
  state_->slice(slice);
  return state_->word(slice).load(std::memory_order_acquire) >> 1;
}

std::uint64_t SegmentReader::ledger(int slice, int worker) const {
  COHORT_CHECK(worker >= 0 && worker < state_->layout.workers, "worker {} of {}", worker,
               state_->layout.workers);
  std::uint64_t sequence = 0;
  state_->read(slice, [&](const std::byte* side) {
    const auto* entries = reinterpret_cast<const std::atomic<std::uint64_t>*>(side) + 1;
    sequence = entries[worker].load(std::memory_order_relaxed);
  });
  return sequence;
}

std::uint64_t SegmentReader::read(int slice, std::span<const ReadRun> runs) const {
  const SliceLayout& where = state_->checked(slice, runs);
  return state_->read(slice, [&](const std::byte* side) { copy(where, side, runs); });
}

bool SegmentReader::read_before(int slice, std::uint64_t version,
                                std::span<const ReadRun> runs) const {
  const SliceLayout& where = state_->checked(slice, runs);
  const std::uint64_t whole = (version + 1) << 1;  // the next counts, and this side is not torn
  if (state_->word(slice).load(std::memory_order_acquire) != whole) return false;
  copy(where, state_->base + where.first_side + (version & 1) * where.side_bytes, runs);
  fence(std::memory_order_acquire);
  return state_->word(slice).load(std::memory_order_relaxed) == whole;
}

}  // namespace cohort::ps

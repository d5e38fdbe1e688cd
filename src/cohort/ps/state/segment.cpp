#include "cohort/ps/state/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "cohort/base/error.h"
#include "cohort/base/process/machine.h"
#include "cohort/ps/state/segment_layout.h"

namespace cohort::ps {
namespace {

double mebibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// Takes the memory now, so that running out of it is an error here and not a signal later.
void take_memory(int file, std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return;
  int code = bytes > usable_memory() ? ENOMEM : EINTR;
  while (code == EINTR)
    code = ::posix_fallocate(file, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  if (code != 0)
    throw SystemError(
        fmt::format("cannot take {:.0f} MiB of memory for parameters", mebibytes(bytes)), code,
        {.advice = "Use more servers (--ps) on other hosts, or free memory on this one."});
}

UniqueFd duplicate(int file) {
  UniqueFd copy(::fcntl(file, F_DUPFD_CLOEXEC, 0));
  if (!copy) throw SystemError("cannot keep the parameter server's memory file", errno);
  return copy;
}

}  // namespace

struct Segment::State {
  State(UniqueFd open_file, SegmentLayout where, std::string text)
      : file(std::move(open_file)), layout(std::move(where)), spec(std::move(text)) {
    mapped = layout.tables + layout.table_bytes;
    void* memory =
        ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
    if (memory == MAP_FAILED)
      throw SystemError(
          fmt::format("cannot map {:.0f} MiB of the parameter server's memory", mebibytes(mapped)),
          errno);
    base = static_cast<std::byte*>(memory);
  }
  ~State() { ::munmap(base, mapped); }

  SegmentHeader& header() { return *reinterpret_cast<SegmentHeader*>(base); }
  std::atomic<std::uint64_t>& word(int slice) {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(base + layout.state_word(slice));
  }
  SliceSide side(int slice, std::uint64_t version) {
    const SliceLayout& where = layout.slices.at(static_cast<std::size_t>(slice));
    std::byte* memory = base + where.first_side + (version & 1) * where.side_bytes;
    SliceSide side;
    side.updates = reinterpret_cast<std::uint64_t*>(memory);
    side.ledger = {side.updates + 1, static_cast<std::size_t>(layout.workers)};
    side.values = memory + where.values;
    for (int i = 0; i < where.shape.slots; ++i)
      side.slots[static_cast<std::size_t>(i)] =
          side.values + static_cast<std::uint64_t>(i + 1) * where.slot_stride;
    return side;
  }

  UniqueFd file;
  SegmentLayout layout;
  std::string spec;
  std::uint64_t mapped = 0;
  std::byte* base = nullptr;
};

Segment::Segment() = default;
Segment::~Segment() = default;

std::unique_ptr<Segment> Segment::create(int file, const std::string& spec, int workers,
                                         std::span<const SliceShape> slices,
                                         std::uint64_t table_bytes, std::uint64_t first_step) {
  SegmentLayout layout(slices, workers, spec.size(), table_bytes);
  if (::ftruncate(file, 0) != 0)
    throw SystemError("cannot empty the parameter server's memory file", errno);
  take_memory(file, 0, layout.tables);
  std::unique_ptr<Segment> segment(new Segment);
  segment->state_ = std::make_unique<State>(duplicate(file), std::move(layout), spec);
  State& state = *segment->state_;

  std::vector<ShapeRecord> records;
  for (const SliceShape& shape : slices)
    records.push_back({static_cast<std::uint32_t>(shape.type),
                       static_cast<std::uint32_t>(shape.slots), shape.elements});
  if (!records.empty())
    std::memcpy(state.base + state.layout.shapes, records.data(),
                records.size() * sizeof(ShapeRecord));
  if (!spec.empty()) std::memcpy(state.base + state.layout.spec, spec.data(), spec.size());
  for (int i = 0; i < segment->slices(); ++i) segment->set_version(i, first_step);

  SegmentHeader& header = *new (state.base) SegmentHeader{};
  header.layout_version = kSegmentLayoutVersion;
  header.workers = static_cast<std::uint32_t>(workers);
  header.slices = records.size();
  header.spec_bytes = spec.size();
  header.table_bytes = table_bytes;
  header.checksum = checksum_of(header, records, spec);
  std::atomic_ref(header.magic).store(kSegmentMagic, std::memory_order_release);
  return segment;
}

std::unique_ptr<Segment> Segment::open(int file) {
  struct ::stat status {};
  if (::fstat(file, &status) != 0)
    throw SystemError("cannot look at the parameter server's memory file", errno);
  // create() writes the magic number last.
  std::uint64_t magic = 0;
  if (status.st_size == 0 || (::pread(file, &magic, sizeof magic, 0) == sizeof magic && magic == 0))
    return nullptr;
  std::string spec;
  SegmentLayout layout = read_layout(file, spec);
  std::unique_ptr<Segment> segment(new Segment);
  segment->state_ = std::make_unique<State>(duplicate(file), std::move(layout), std::move(spec));
  return segment->is_initialised() ? std::move(segment) : nullptr;
}

const std::string& Segment::spec() const { return state_->spec; }
int Segment::slices() const { return static_cast<int>(state_->layout.slices.size()); }
const SliceShape& Segment::shape(int slice) const {
  return state_->layout.slices.at(static_cast<std::size_t>(slice)).shape;
}
int Segment::workers() const { return state_->layout.workers; }
int Segment::file() const { return state_->file.get(); }

void Segment::mark_initialised() {
  state_->header().initialised.store(1, std::memory_order_release);
}
bool Segment::is_initialised() const {
  return state_->header().initialised.load(std::memory_order_acquire) != 0;
}

std::uint64_t Segment::version(int slice) const {
  return state_->word(slice).load(std::memory_order_relaxed) >> 1;
}

SliceSide Segment::current(int slice) const { return state_->side(slice, version(slice)); }

void Segment::set_version(int slice, std::uint64_t version) {
  COHORT_CHECK(!is_initialised(), "slice {} counts already", slice);
  state_->word(slice).store(version << 1 | 1, std::memory_order_relaxed);
  std::ranges::fill(state_->side(slice, version).ledger, version);
}

SliceSide Segment::add_previous(int slice) {
  COHORT_CHECK(!is_initialised() && version(slice) > 0, "slice {} has nothing before it", slice);
  state_->word(slice).store(version(slice) << 1, std::memory_order_relaxed);
  return state_->side(slice, version(slice) - 1);
}

std::optional<SliceSide> Segment::previous(int slice) const {
  const std::uint64_t word = state_->word(slice).load(std::memory_order_relaxed);
  if ((word & 1) != 0 || word == 0) return std::nullopt;
  return state_->side(slice, (word >> 1) - 1);
}

SliceSide Segment::begin_update(int slice) {
  const std::uint64_t next = version(slice) + 1;
  state_->word(slice).store((next - 1) << 1 | 1, std::memory_order_relaxed);
  fence(std::memory_order_release);
  return state_->side(slice, next);
}

void Segment::publish(int slice) {
  const std::uint64_t word = state_->word(slice).load(std::memory_order_relaxed);
  COHORT_CHECK((word & 1) != 0, "slice {} has no update to publish", slice);
  state_->word(slice).store(((word >> 1) + 1) << 1, std::memory_order_release);
}

// The side stays marked as torn: a reader of the version before the current one may have copied
// half of what was written, and would not notice otherwise.
void Segment::abandon_update(int slice) {
  COHORT_CHECK((state_->word(slice).load(std::memory_order_relaxed) & 1) != 0,
               "slice {} has no update to abandon", slice);
}

std::span<std::byte> Segment::table_arena() {
  return {state_->base + state_->layout.tables, state_->layout.table_bytes};
}

void Segment::use_table_arena(std::uint64_t offset, std::uint64_t bytes) {
  COHORT_CHECK(offset <= state_->layout.table_bytes && bytes <= state_->layout.table_bytes - offset,
               "arena {} + {} of {}", offset, bytes, state_->layout.table_bytes);
  take_memory(file(), state_->layout.tables + offset, bytes);
}

std::uint64_t Segment::bytes() const {
  struct ::stat status {};
  if (::fstat(file(), &status) != 0)
    throw SystemError("cannot look at the parameter server's memory file", errno);
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

}  // namespace cohort::ps

#include "cohort/ps/state/segment_layout.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "cohort/base/data/crc32c.h"
#include "cohort/base/error.h"
#include "cohort/ps/model/model_spec_checks.h"

namespace cohort::ps {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 46;  // under what a process can map
constexpr std::uint64_t kMaxSlices = std::uint64_t{1} << 24;

std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t to) {
  return (bytes + to - 1) / to * to;
}

[[noreturn]] void refuse_memory_file(const std::string& what) {
  throw InvalidInput("the parameter server's memory file " + what,
                     {.advice = "Start the job anew."});
}

// Reads exactly `bytes` at `offset`.
void read_exactly(int file, void* to, std::size_t bytes, std::uint64_t offset) {
  auto* out = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(file, out, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw SystemError("cannot read the parameter server's memory file", errno);
    if (got == 0) refuse_memory_file(fmt::format("ends at byte {}, in its header", offset));
    out += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

}  // namespace

SegmentLayout::SegmentLayout(std::span<const SliceShape> slice_shapes, int worker_count,
                             std::uint64_t spec_bytes, std::uint64_t table_arena)
    : workers(worker_count), table_bytes(table_arena) {
  const auto within = [](std::uint64_t bytes) {
    if (bytes > kMaxFileBytes)
      throw InvalidInput(fmt::format("a parameter server's share of the model would take {} bytes; "
                                     "at most {} are possible",
                                     bytes, kMaxFileBytes),
                         {.advice = "Use more servers (--ps)."});
    return bytes;
  };
  if (workers < 1 || workers > kMaxWorkers || slice_shapes.size() > kMaxSlices)
    throw InvalidInput(
        fmt::format("a segment for {} workers and {} slices; at most {} and {} are "
                    "possible",
                    workers, slice_shapes.size(), kMaxWorkers, kMaxSlices));
  shapes = rounded_up(sizeof(SegmentHeader), 64);
  spec = rounded_up(shapes + slice_shapes.size() * sizeof(ShapeRecord), 64);
  states = rounded_up(spec + within(spec_bytes), kPage);
  std::uint64_t next = rounded_up(states + slice_shapes.size() * 64, kPage);
  slices.reserve(slice_shapes.size());
  for (const SliceShape& shape : slice_shapes) {
    if (shape.elements > kMaxElements || shape.slots < 0 || shape.slots > kMaxSlots)
      throw InvalidInput(
          fmt::format("a slice of {} elements with {} slots", shape.elements, shape.slots));
    SliceLayout slice{.shape = shape};
    slice.first_side = next;
    slice.values = rounded_up((1 + static_cast<std::uint64_t>(workers)) * 8, 64);
    slice.slot_stride = rounded_up(shape.elements * size_of(shape.type), 64);
    slice.side_bytes =
        slice.values + slice.slot_stride * (1 + static_cast<std::uint64_t>(shape.slots));
    next = within(rounded_up(next + 2 * slice.side_bytes, kPage));
    slices.push_back(slice);
  }
  tables = next;
  within(table_bytes);
}

std::uint32_t checksum_of(const SegmentHeader& header, std::span<const ShapeRecord> shapes,
                          std::string_view spec) {
  constexpr std::size_t kFirst = offsetof(SegmentHeader, layout_version);
  std::uint32_t sum = crc32c(reinterpret_cast<const std::byte*>(&header) + kFirst,
                             offsetof(SegmentHeader, checksum) - kFirst);
  sum = crc32c(shapes.data(), shapes.size_bytes(), sum);
  return crc32c(spec.data(), spec.size(), sum);
}

SegmentLayout read_layout(int file, std::string& spec) {
  struct ::stat status {};
  if (::fstat(file, &status) != 0)
    throw SystemError("cannot look at the parameter server's memory file", errno);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  SegmentHeader header{};
  read_exactly(file, &header, sizeof header, 0);
  if (header.magic != kSegmentMagic) refuse_memory_file("is not one of a parameter server");
  if (header.layout_version != kSegmentLayoutVersion)
    refuse_memory_file(fmt::format("has the layout version {}; this program writes and reads {}",
                                   header.layout_version, kSegmentLayoutVersion));
  if (header.slices > kMaxSlices || header.spec_bytes > kMaxSpecBytes)
    refuse_memory_file(fmt::format("claims {} slices and a description of {} bytes", header.slices,
                                   header.spec_bytes));
  std::vector<ShapeRecord> records(header.slices);
  const std::uint64_t records_at = rounded_up(sizeof header, 64);
  read_exactly(file, records.data(), records.size() * sizeof(ShapeRecord), records_at);
  spec.resize(header.spec_bytes);
  read_exactly(file, spec.data(), spec.size(),
               rounded_up(records_at + records.size() * sizeof(ShapeRecord), 64));
  if (checksum_of(header, records, spec) != header.checksum)
    refuse_memory_file("is damaged in its header");

  std::vector<SliceShape> shapes;
  shapes.reserve(records.size());
  for (const ShapeRecord& record : records) {
    if (record.type > 1 || record.slots > kMaxSlots)
      refuse_memory_file(
          fmt::format("has a slice of type {} with {} slots", record.type, record.slots));
    shapes.push_back(
        {static_cast<ElementType>(record.type), record.elements, static_cast<int>(record.slots)});
  }
  SegmentLayout layout(shapes, static_cast<int>(header.workers), header.spec_bytes,
                       header.table_bytes);
  if (size < layout.tables)
    refuse_memory_file(fmt::format("has {} bytes where its header needs {}", size, layout.tables));
  return layout;
}

}  // namespace cohort::ps

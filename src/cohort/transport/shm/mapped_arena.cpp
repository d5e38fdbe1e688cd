#include "cohort/transport/shm/mapped_arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cohort/base/error.h"

namespace cohort::transport::shm {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kReturnToSystem = 1 << 20;

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

Mapping::Mapping(const UniqueFd& fd, std::size_t bytes) : bytes_(bytes) {
  void* memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (memory == MAP_FAILED)
    throw SystemError(fmt::format("map {} bytes of shared address space", bytes), errno,
                      {.advice = "Raise the limit on address space (ulimit -v) or give the group a "
                                 "smaller part_bytes."});
  data_ = static_cast<std::byte*>(memory);
}

Mapping::~Mapping() { ::munmap(data_, bytes_); }

std::size_t ArenaLayout::part_offset(int rank) const {
  return round_up(Arena::table_bytes(size), kPage) + static_cast<std::size_t>(rank) * part_bytes;
}

UniqueFd make_arena_file(const ArenaLayout& layout) {
  UniqueFd fd(::memfd_create("cohort-arena", MFD_CLOEXEC));
  if (!fd) throw SystemError("make a memory segment", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(layout.file_bytes())) != 0)
    throw SystemError("size a memory segment", errno);
  return fd;
}

ArenaMemory::ArenaMemory(std::string name, const UniqueFd& file, const ArenaLayout& layout,
                         int part, bool keeps_pages)
    : name_(std::move(name)),
      layout_(layout),
      part_(part),
      keeps_pages_(keeps_pages),
      mapping_(file, layout.file_bytes()) {
  free_[layout.part_offset(part)] = layout.part_bytes;
}

std::byte* ArenaMemory::allocate(std::size_t bytes) {
  // Whole pages for anything large, so that a freed block can be given back to the system.
  const std::size_t wanted =
      bytes >= kPage ? round_up(bytes, kPage) : round_up(std::max<std::size_t>(bytes, 1), 64);
  std::lock_guard lock(mutex_);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, available] = *it;
    const std::size_t start = bytes >= kPage ? round_up(offset, kPage) : offset;
    const std::size_t skipped = start - offset;
    if (available < skipped + wanted) continue;
    free_.erase(it);
    if (skipped > 0) free_[offset] = skipped;
    if (available > skipped + wanted) free_[start + wanted] = available - skipped - wanted;
    allocated_[start] = wanted;
    return data() + start;
  }
  throw Error(fmt::format("no room for {} bytes in this rank's {} bytes of shared memory", bytes,
                          layout_.part_bytes),
              {.advice = "Free group buffers that are no longer used, or form the group with a "
                         "larger part_bytes."});
}

void ArenaMemory::free(std::byte* memory) {
  std::size_t offset = static_cast<std::size_t>(memory - data());
  std::lock_guard lock(mutex_);
  const auto it = allocated_.find(offset);
  COHORT_CHECK(it != allocated_.end(), "offset {} was not allocated", offset);
  std::size_t bytes = it->second;
  allocated_.erase(it);
  if (bytes >= kReturnToSystem && !keeps_pages_) ::madvise(memory, bytes, MADV_REMOVE);

  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

MappedArena::MappedArena(int rank, int size, std::shared_ptr<ArenaMemory> memory, std::size_t table)
    : Arena(rank, size, memory->data() + table), memory_(std::move(memory)) {}

SharedRef MappedArena::locate(const void* memory, std::size_t bytes) const {
  const auto* start = static_cast<const std::byte*>(memory);
  if (start < memory_->data() || start + bytes > memory_->data() + memory_->bytes()) return {};
  return {SharedRef::Kind::offset, static_cast<std::uint64_t>(start - memory_->data())};
}

void MappedArena::meet(Deadline deadline) {
  introduce();
  int missing = 0;
  const auto everyone = [&] {
    while (missing < size() && member(missing).joined.load() != 0) ++missing;
    return missing == size();
  };
  if (!member(rank()).bell.wait(everyone, {}, deadline))
    throw TimeoutError(
        fmt::format("member {} of this host did not map the memory in time", missing));
  watcher_ = std::make_unique<Watcher>(*this);
}

}  // namespace cohort::transport::shm

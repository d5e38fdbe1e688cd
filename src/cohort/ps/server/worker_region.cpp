#include "cohort/ps/server/worker_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::ps {

WorkerRegion::WorkerRegion(UniqueFd file) : file_(std::move(file)) {
  const int seals = ::fcntl(file_.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    throw ProtocolError("the worker's region is not a memory file that is sealed against shrinking",
                        {.advice = "Seal it with F_SEAL_SHRINK before it is sent."});
  map();
}

void WorkerRegion::map() {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) throw SystemError("cannot look at a region", errno);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == size_) return;
  if (size == 0) return;
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file_.get(), 0);
  if (memory == MAP_FAILED)
    throw SystemError(fmt::format("cannot map a worker's region of {} bytes", size), errno);
  mapping_ = {static_cast<const std::byte*>(memory),
              [size](const std::byte* mapped) { ::munmap(const_cast<std::byte*>(mapped), size); }};
  size_ = size;
}

WorkerRegion::View WorkerRegion::view(std::uint64_t offset, std::size_t bytes) {
  const auto is_outside = [&] { return offset > size_ || bytes > size_ - offset; };
  if (offset % 8 != 0)
    throw ProtocolError(fmt::format("a push lies at {} of a region, not a multiple of 8", offset));
  if (is_outside()) map();
  if (is_outside())
    throw ProtocolError(
        fmt::format("a push of {} bytes at {} of a region of {} bytes", bytes, offset, size_));
  return {{mapping_.get() + offset, bytes}, mapping_};
}

}  // namespace cohort::ps

#include "cohort/ps/table/private_arena.h"

#include <sys/mman.h>

#include <cerrno>

#include "cohort/base/error.h"

namespace cohort::ps {
namespace {

constexpr std::size_t kBytes = std::size_t{64} << 30;

}  // namespace

void PrivateArena::Unmap::operator()(std::byte* at) const { ::munmap(at, kBytes); }

PrivateArena::PrivateArena() {
  void* at = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    throw SystemError("reserve addresses for an embedding table", errno,
                      {.advice = "Raise the limit on virtual memory (ulimit -v)."});
  memory_.reset(static_cast<std::byte*>(at));
}

TableArena PrivateArena::arena() const {
  return {{memory_.get(), kBytes}, [](std::uint64_t) {}};
}

}  // namespace cohort::ps

#pragma once

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "cohort/base/error.h"
#include "cohort/base/unique_fd.h"
#include "cohort/ps/table/table_memory.h"

namespace cohort::ps {

// For tests: an arena in a memory file, as a segment gives it: touching what was not asked for is a
// bus error, and processes forked from this one share it.
class ArenaOfTest {
 public:
  explicit ArenaOfTest(std::size_t bytes = std::size_t{1} << 30)
      : file_(::memfd_create("table", MFD_CLOEXEC)), bytes_(bytes) {
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    if (at == MAP_FAILED) throw SystemError("map a table's arena", errno);
    at_ = static_cast<std::byte*>(at);
  }
  ~ArenaOfTest() { ::munmap(at_, bytes_); }
  ArenaOfTest(const ArenaOfTest&) = delete;
  ArenaOfTest& operator=(const ArenaOfTest&) = delete;

  TableArena arena() {
    return {{at_, bytes_}, [this](std::uint64_t bytes) {
              struct stat now {};
              if (::fstat(file_.get(), &now) == 0 && static_cast<off_t>(bytes) <= now.st_size)
                return;
              if (::ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0)
                throw SystemError("grow a table's arena", errno);
            }};
  }

 private:
  UniqueFd file_;
  std::size_t bytes_;
  std::byte* at_ = nullptr;
};

}  // namespace cohort::ps

#pragma once

#include <cstddef>
#include <memory>

#include "cohort/ps/table/table_memory.h"

namespace cohort::ps {

// Memory of this process alone for a table that need not outlive it: addresses for any size, memory
// as it is used. Threads: as the table's. Failure: SystemError where addresses are limited.
class PrivateArena {
 public:
  PrivateArena();

  TableArena arena() const;  // valid as long as this

 private:
  struct Unmap {
    void operator()(std::byte* at) const;
  };
  std::unique_ptr<std::byte, Unmap> memory_;
};

}  // namespace cohort::ps

#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

namespace cohort::ps {

// Memory for what arrives, used again: a gradient of a slice is up to a megabyte, and a fresh one
// costs page faults. A buffer goes back when its last owner lets go of it, also after the pool has
// gone. Threads: confined to one.
class ReceiveBuffers {
 public:
  explicit ReceiveBuffers(std::size_t max_idle_bytes = std::size_t{64} << 20);

  // Aligned to 64 bytes; not cleared.
  std::shared_ptr<std::byte> get(std::size_t bytes);

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  using Buffer = std::unique_ptr<std::byte, Free>;
  struct Idle {
    std::map<std::size_t, std::vector<Buffer>> by_size;
    std::size_t bytes = 0;
  };
  std::shared_ptr<Idle> idle_ = std::make_shared<Idle>();
  std::size_t max_idle_bytes_;
};

}  // namespace cohort::ps

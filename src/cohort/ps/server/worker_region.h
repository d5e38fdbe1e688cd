#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cohort/base/unique_fd.h"

namespace cohort::ps {

// The memory file in which a worker of this host puts its gradients, as the server reads it. The
// file may grow; that it cannot shrink is made sure of, since reading a page that is gone would end
// the server.
//
// Threads: confined to one. Failure: ProtocolError for a file that is not such a memory file, and
// for places outside it.
class WorkerRegion {
 public:
  explicit WorkerRegion(UniqueFd file);

  struct View {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> mapping;  // keeps them
  };
  // `offset` is a multiple of 8.
  View view(std::uint64_t offset, std::size_t bytes);

 private:
  void map();

  UniqueFd file_;
  std::shared_ptr<const std::byte> mapping_;
  std::size_t size_ = 0;
};

}  // namespace cohort::ps

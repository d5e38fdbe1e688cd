#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "cohort/collective/device/device_group.h"

namespace cohort::collective {

// The calls of NVIDIA's driver (libcuda.so.1) that Cohort makes itself, found when the program runs:
// one binary works with and without a driver, and is built without CUDA's headers. All but find()
// work on the calling thread's current CUDA context, which LibTorch has made.
//
// Threads: thread-safe. Failure: Error with the call's name and the driver's own words.
class CudaDriver {
 public:
  using Address = std::uint64_t;  // of memory on a GPU
  using IpcHandle = std::array<std::byte, 64>;
  using Uuid = std::array<std::byte, 16>;

  // nullptr where there is no driver that works; `why` then says what was looked for and failed.
  static const CudaDriver* find(std::string* why = nullptr);

  int version() const;  // 13000: CUDA 13.0, the newest that the driver serves
  Uuid current_device() const;

  Address allocate(std::size_t bytes) const;
  void free(Address memory) const noexcept;
  void fill(Address memory, std::uint32_t value, std::size_t words) const;  // waits for it

  // Memory of another process on this host: handle_of() there, open() here, close() before it goes.
  IpcHandle handle_of(Address memory) const;
  Address open(const IpcHandle& handle) const;
  void close(Address memory) const noexcept;

  // On a stream; the host waits for nothing. wait_for: the stream goes on when the word at `flag` is
  // `value`. set: the word is written when all before it on the stream is done and seen.
  void copy(Address to, Address from, std::size_t bytes, DeviceStream stream) const;
  void wait_for(Address flag, std::uint32_t value, DeviceStream stream) const;
  void set(Address flag, std::uint32_t value, DeviceStream stream) const;

 private:
  CudaDriver() = default;
  struct Calls;
  const Calls* calls_ = nullptr;
};

}  // namespace cohort::collective

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cohort/collective/device/device_group.h"

namespace cohort::collective {

// The calls of NVIDIA's driver (libcuda.so.1) that Cohort makes itself, found when the program runs:
// one binary works with and without a driver, and is built without CUDA's headers. Where nothing
// else is said, a call works on the calling thread's current CUDA context, which LibTorch has made.
//
// Threads: thread-safe. Failure: Error with the call's name and the driver's own words.
class CudaDriver {
 public:
  using Address = std::uint64_t;  // of memory on a GPU, or of the host's as a GPU sees it
  using IpcHandle = std::array<std::byte, 64>;
  using Uuid = std::array<std::byte, 16>;
  using Context = void*;  // CUcontext
  using Event = void*;    // CUevent

  struct Device {
    std::string name;
    Uuid uuid;
    std::size_t memory = 0;  // bytes
  };

  // A step of a stream on a word of memory. wait: goes on when (word & value) is not zero. write:
  // when all before it on the stream is done and seen by every GPU and the host.
  struct WordStep {
    enum class Kind { wait, write };
    Kind kind = Kind::wait;
    Address word = 0;
    std::uint32_t value = 0;
  };

  // nullptr where there is no driver that works; `why` then says what was looked for and failed.
  static const CudaDriver* find(std::string* why = nullptr);

  int version() const;                  // 13000: CUDA 13.0, the newest that the driver serves
  std::vector<Device> devices() const;  // needs no context

  // The context of this thread; nullptr: none.
  Context current_context() const;
  Uuid current_device() const;
  // Makes the device's primary context, the one that LibTorch uses, this thread's.
  void use_device(int ordinal) const;
  // Lets this context's kernels and copies reach memory of `peer`, a context of this process.
  void enable_peer_access(Context peer) const;
  // Waits for all work of the context, also replays of graphs. True when there is none any more, also
  // after an error that ends the context; false where a capture that is under way forbids the wait.
  bool synchronize() const noexcept;

  Address allocate(std::size_t bytes) const;
  // Waits for all work of the context: never while a stream may be stuck.
  void free(Address memory) const noexcept;

  // Memory of another process on this host: handle_of() there, open() here, close() before it goes.
  IpcHandle handle_of(Address memory) const;
  Address open(const IpcHandle& handle) const;
  void close(Address memory) const noexcept;

  // Memory of this process that GPUs may write and wait for: whole pages, once for all contexts.
  void register_host(void* memory, std::size_t bytes) const;
  Address address_of_host(void* memory) const;        // in the current context
  void unregister_host(void* memory) const noexcept;  // with a context, any

  // On a stream; the host waits for nothing.
  void copy(Address to, Address from, std::size_t bytes, DeviceStream stream) const;
  void run(std::span<const WordStep> steps, DeviceStream stream) const;  // one after the other

  // Points in the work of a stream.
  Event make_event() const;
  void record(Event event, DeviceStream stream) const;
  void wait_for(Event event, DeviceStream stream) const;
  bool reached(Event event) const noexcept;  // also true after an error that ends the context
  void destroy(Event event) const noexcept;
  // The number of the capture into a CUDA graph that the stream takes part in; 0: none.
  // kBrokenCapture: one that a refused call has ended, which refuses everything until it is closed.
  static constexpr std::uint64_t kBrokenCapture = ~std::uint64_t{0};
  std::uint64_t capture_of(DeviceStream stream) const;

  // Makes a context this thread's while it lives.
  class UseContext {
   public:
    UseContext(const CudaDriver& driver, Context context) noexcept;
    UseContext(const UseContext&) = delete;
    ~UseContext();

   private:
    const CudaDriver& driver_;
    bool pushed_ = false;
  };

 private:
  struct Calls;
  explicit CudaDriver(const Calls& calls) : calls_(&calls) {}
  void check(int result, const char* call) const;

  const Calls* calls_;
};

}  // namespace cohort::collective

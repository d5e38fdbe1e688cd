// A GPU for tests: NVIDIA's, or the stand-in of tests/collective/stand_in_cuda.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/collective/device/cuda_driver.h"

namespace cohort::collective::testing {

// One device as one thread uses it: streams, memory and graphs, which go with it.
class Gpu {
 public:
  static std::size_t count();  // 0: no driver, or no GPU
  static bool is_stand_in();
  // Of the stand-in: this thread's call of that name fails from now on; "": none.
  static void fail_call(const char* name);
  static int stand_in_mappings();
  static int stand_in_blocked_calls();  // hosts that wait for a stream that is full

  explicit Gpu(int ordinal);  // becomes this thread's
  Gpu(const Gpu&) = delete;
  ~Gpu();

  const CudaDriver& driver() const { return driver_; }
  DeviceStream make_stream();
  std::byte* allocate(std::size_t bytes);
  // Behind what the stream has to do; the host's memory must stay until then.
  void copy(void* to, const void* from, std::size_t bytes, DeviceStream stream) const;
  // Until the stream has done what it was given; false at the deadline.
  bool wait(DeviceStream stream, Deadline deadline) const;

  void begin_capture(DeviceStream stream) const;
  void* end_capture(DeviceStream stream);  // a graph that can be launched
  void launch(void* graph, DeviceStream stream) const;

  // Of the host, for copies that do not wait.
  std::byte* allocate_host(std::size_t bytes);
  void call_host(DeviceStream stream, void (*function)(void*), void* data) const;

 private:
  const CudaDriver& driver_;
  std::vector<DeviceStream> streams_;
  std::vector<CudaDriver::Address> memory_;
  std::vector<void*> host_memory_;
  std::vector<void*> graphs_;
};

}  // namespace cohort::collective::testing

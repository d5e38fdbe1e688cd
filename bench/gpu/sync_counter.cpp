// Counts the calls by which a program waits for its GPU: preloaded (LD_PRELOAD) it stands before
// CUDA's runtime library, and at exit it prints one line on standard error,
//   gpu_syncs {"stream": n, "device": n, "copies": n, "events": n, "event_waits": n}
// stream, device: synchronisations, after which the GPU has nothing queued. copies: those that wait
// (cudaMemcpy, and asynchronous ones into or out of memory that is not page-locked). events: calls of
// cudaEventSynchronize; event_waits: those whose event was not reached: what was queued behind it
// keeps the GPU busy meanwhile. Needs no header of CUDA: the numbers below are its ABI.
#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdio>

namespace {

constexpr int kHostToDevice = 1, kDeviceToHost = 2;
constexpr int kUnregistered = 0;

std::atomic<long> streams{0}, devices{0}, copies{0}, events{0}, event_waits{0};

struct AtExit {
  ~AtExit() {
    std::fprintf(stderr,
                 "gpu_syncs {\"stream\": %ld, \"device\": %ld, \"copies\": %ld, \"events\": %ld, "
                 "\"event_waits\": %ld}\n",
                 streams.load(), devices.load(), copies.load(), events.load(), event_waits.load());
  }
} at_exit;

// The runtime's own function of that name.
template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// cudaPointerAttributes: the type, the device, two addresses, and room for what later versions add.
struct PointerAttributes {
  int type, device;
  void *there, *here;
  long reserved[16];
};

bool is_pageable(const void* memory) {
  using Query = int(PointerAttributes*, const void*);
  static Query* const query = next<Query>("cudaPointerGetAttributes");
  PointerAttributes attributes{};
  return query != nullptr && query(&attributes, memory) == 0 && attributes.type == kUnregistered;
}

}  // namespace

extern "C" {

int cudaStreamSynchronize(void* stream) {
  static auto* const call = next<int(void*)>("cudaStreamSynchronize");
  ++streams;
  return call(stream);
}

int cudaDeviceSynchronize() {
  static auto* const call = next<int()>("cudaDeviceSynchronize");
  ++devices;
  return call();
}

int cudaEventSynchronize(void* event) {
  static auto* const call = next<int(void*)>("cudaEventSynchronize");
  static auto* const query = next<int(void*)>("cudaEventQuery");
  ++events;
  if (query(event) != 0) ++event_waits;
  return call(event);
}

int cudaMemcpy(void* to, const void* from, std::size_t bytes, int kind) {
  static auto* const call = next<int(void*, const void*, std::size_t, int)>("cudaMemcpy");
  ++copies;
  return call(to, from, bytes, kind);
}

int cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind, void* stream) {
  static auto* const call =
      next<int(void*, const void*, std::size_t, int, void*)>("cudaMemcpyAsync");
  if ((kind == kHostToDevice && is_pageable(from)) || (kind == kDeviceToHost && is_pageable(to)))
    ++copies;
  return call(to, from, bytes, kind, stream);
}

}  // extern "C"

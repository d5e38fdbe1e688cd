// A stand-in for libcuda.so.1, for tests on machines without a GPU: memory of the host takes the
// place of a GPU's, and threads that of its streams. Only what Cohort's driver calls and their tests
// need, and as strict as the driver where Cohort must be careful: a stream takes only so much ahead of
// it, freeing memory waits for all streams of the device, memory of the own process cannot be opened, an event of a capture means
// nothing outside it.
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "memory.h"
#include "stream.h"

namespace {

using namespace stand_in;
using Result = int;
using Address = std::uint64_t;

constexpr Result kSuccess = 0;
constexpr Result kInvalidValue = 1;
constexpr Result kOutOfMemory = 2;
constexpr Result kInvalidDevice = 101;
constexpr Result kInvalidContext = 201;
constexpr Result kNotReady = 600;
constexpr Result kAlreadyRegistered = 712;
constexpr Result kNotRegistered = 713;
constexpr Result kCaptureInvalidated = 901;
constexpr Result kCaptureIsolation = 905;
constexpr Result kUnknown = 999;

constexpr int kDevices = 4;

struct Context {
  int device;
  Stream* null_stream;
};
Context* context_of(int device) {
  static Context* const all = [] {
    auto* contexts = new Context[kDevices];
    for (int i = 0; i < kDevices; ++i) contexts[i] = {i, Stream::create(i)};
    return contexts;
  }();
  return all + device;
}

// What the driver keeps of a thread. Not thread_local: ThreadSanitizer takes the end of such a variable
// in a library that was loaded late for a race.
struct OfThread {
  std::vector<Context*> current;  // the last one counts
  std::string fails;              // the call that is to fail
};
OfThread& of_thread() {
  static std::mutex& mutex = *new std::mutex;
  static auto& all = *new std::map<pid_t, OfThread>;
  const std::lock_guard lock(mutex);
  return all[::gettid()];
}

Stream* stream_of(void* handle) {
  if (handle != nullptr) return static_cast<Stream*>(handle);
  return of_thread().current.empty() ? nullptr : of_thread().current.back()->null_stream;
}

bool is_invalid(Stream& stream) {
  const auto capture = stream.capture();
  return capture && capture->invalid;
}

struct MemOp {
  int operation;
  Address address;
  std::uint64_t value;
  unsigned flags;
  Address alias;
  std::uint64_t unused;
};

constexpr std::uint32_t kEnded = 3;  // what Cohort writes into words to end waits

void await_word(Stream& stream, Address address, std::uint32_t bits) {
  auto* word = reinterpret_cast<std::atomic<std::uint32_t>*>(address);
  std::uint32_t value = 0;
  for (int look = 0; ((value = word->load()) & bits) == 0; ++look)
    if (look < 200)
      ::sched_yield();
    else
      ::usleep(20);
  if (value == kEnded) stream.races = true;
}

// What ThreadSanitizer does not see.
__attribute__((no_sanitize("thread"))) void copy_unseen(Address to, Address from,
                                                        std::size_t bytes) {
  auto* target = reinterpret_cast<volatile char*>(to);
  const auto* source = reinterpret_cast<const volatile char*>(from);
  for (std::size_t i = 0; i < bytes; ++i) target[i] = source[i];
}

struct Graph {
  std::vector<Work> work;
};

}  // namespace

#define STAND_IN extern "C" __attribute__((visibility("default")))
#define FAIL_IF_ASKED(call) \
  if (of_thread().fails == (call)) return kUnknown

// For tests: the named call of this thread fails from now on; "" none.
STAND_IN void cohort_stand_in_cuda_fail(const char* call) { of_thread().fails = call; }
STAND_IN int cohort_stand_in_cuda_mappings() { return mappings(); }
STAND_IN int cohort_stand_in_cuda_blocked_calls() { return blocked_calls(); }

STAND_IN Result cuInit(unsigned) { return kSuccess; }
STAND_IN Result cuGetErrorName(Result, const char** name) {
  *name = "CUDA_ERROR_STAND_IN";
  return kSuccess;
}
STAND_IN Result cuGetErrorString(Result, const char** text) {
  *text = "the stand-in refuses";
  return kSuccess;
}
STAND_IN Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
STAND_IN Result cuDeviceGetCount(int* count) {
  *count = kDevices;
  return kSuccess;
}
STAND_IN Result cuDeviceGet(int* device, int ordinal) {
  if (ordinal < 0 || ordinal >= kDevices) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}
STAND_IN Result cuDeviceGetName(char* name, int bytes, int) {
  std::strncpy(name, "stand-in", static_cast<std::size_t>(bytes));
  return kSuccess;
}
STAND_IN Result cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{1} << 30;
  return kSuccess;
}
STAND_IN Result cuDeviceGetUuid_v2(char* uuid, int device) {
  std::memset(uuid, device + 1, 16);
  return kSuccess;
}

STAND_IN Result cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = context_of(device);
  return kSuccess;
}
STAND_IN Result cuCtxGetCurrent(void** context) {
  *context = of_thread().current.empty() ? nullptr : of_thread().current.back();
  return kSuccess;
}
STAND_IN Result cuCtxSetCurrent(void* context) {
  if (!of_thread().current.empty()) of_thread().current.pop_back();
  if (context != nullptr) of_thread().current.push_back(static_cast<Context*>(context));
  return kSuccess;
}
STAND_IN Result cuCtxPushCurrent_v2(void* context) {
  of_thread().current.push_back(static_cast<Context*>(context));
  return kSuccess;
}
STAND_IN Result cuCtxPopCurrent_v2(void** context) {
  if (of_thread().current.empty()) return kInvalidContext;
  *context = of_thread().current.back();
  of_thread().current.pop_back();
  return kSuccess;
}
STAND_IN Result cuCtxGetDevice(int* device) {
  if (of_thread().current.empty()) return kInvalidContext;
  *device = of_thread().current.back()->device;
  return kSuccess;
}
STAND_IN Result cuCtxSynchronize() {
  if (of_thread().current.empty()) return kInvalidContext;
  await_idle(of_thread().current.back()->device);
  return kSuccess;
}
STAND_IN Result cuCtxEnablePeerAccess(void* peer, unsigned) {
  FAIL_IF_ASKED("cuCtxEnablePeerAccess");
  return of_thread().current.empty() || peer == of_thread().current.back() ? kInvalidContext
                                                                           : kSuccess;
}

STAND_IN Result cuMemAlloc_v2(Address* memory, std::size_t bytes) {
  FAIL_IF_ASKED("cuMemAlloc");
  if (of_thread().current.empty()) return kInvalidContext;
  *memory = allocate(bytes);
  return *memory != 0 ? kSuccess : kOutOfMemory;
}
STAND_IN Result cuMemFree_v2(Address memory) {
  if (of_thread().current.empty()) return kInvalidContext;
  await_idle(of_thread().current.back()->device);
  return stand_in::free(memory) ? kSuccess : kInvalidValue;
}
STAND_IN Result cuMemAllocHost_v2(void** memory, std::size_t bytes) {
  *memory = ::operator new(bytes);
  return kSuccess;
}
STAND_IN Result cuMemFreeHost(void* memory) {
  ::operator delete(memory);
  return kSuccess;
}
STAND_IN Result cuIpcGetMemHandle(Handle* handle, Address memory) {
  FAIL_IF_ASKED("cuIpcGetMemHandle");
  return handle_of(memory, *handle) ? kSuccess : kInvalidValue;
}
STAND_IN Result cuIpcOpenMemHandle_v2(Address* memory, Handle handle, unsigned) {
  FAIL_IF_ASKED("cuIpcOpenMemHandle");
  *memory = stand_in::open(handle);
  return *memory != 0 ? kSuccess : kInvalidContext;
}
STAND_IN Result cuIpcCloseMemHandle(Address memory) {
  return stand_in::close(memory) ? kSuccess : kInvalidValue;
}
STAND_IN Result cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned) {
  FAIL_IF_ASKED("cuMemHostRegister");
  if (of_thread().current.empty()) return kInvalidContext;
  return register_host(memory, bytes) ? kSuccess : kAlreadyRegistered;
}
STAND_IN Result cuMemHostGetDevicePointer_v2(Address* address, void* memory, unsigned) {
  *address = reinterpret_cast<std::uintptr_t>(memory);
  return kSuccess;
}
STAND_IN Result cuMemHostUnregister(void* memory) {
  if (of_thread().current.empty()) return kInvalidContext;
  return unregister_host(memory) ? kSuccess : kNotRegistered;
}

STAND_IN Result cuStreamCreate(void** stream, unsigned) {
  if (of_thread().current.empty()) return kInvalidContext;
  *stream = Stream::create(of_thread().current.back()->device);
  return kSuccess;
}
STAND_IN Result cuStreamDestroy_v2(void* stream) {
  static_cast<Stream*>(stream)->destroy();
  return kSuccess;
}
STAND_IN Result cuMemcpyAsync(Address to, Address from, std::size_t bytes, void* stream) {
  Stream* const on = stream_of(stream);
  if (on == nullptr) return kInvalidContext;
  if (is_invalid(*on)) return kCaptureInvalidated;
  if (const auto capture = on->capture(); capture && of_thread().fails == "cuMemcpyAsync")
    capture->invalid = true;
  FAIL_IF_ASKED("cuMemcpyAsync");
  on->put([=] {
    if (on->races)
      copy_unseen(to, from, bytes);
    else
      std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  });
  return kSuccess;
}
STAND_IN Result cuStreamBatchMemOp_v2(void* stream, unsigned count, const MemOp* operations,
                                      unsigned) {
  Stream* const on = stream_of(stream);
  if (on == nullptr) return kInvalidContext;
  if (count > 255) return kInvalidValue;
  if (is_invalid(*on)) return kCaptureInvalidated;
  Launch launch;
  for (unsigned i = 0; i < count; ++i) {
    const MemOp operation = operations[i];
    const auto value = static_cast<std::uint32_t>(operation.value);
    if (operation.operation == 1 && operation.flags == 2)
      launch.push_back([=] { await_word(*on, operation.address, value); });
    else if (operation.operation == 2 && operation.flags == 0)
      launch.push_back(
          [=] { *reinterpret_cast<std::atomic<std::uint32_t>*>(operation.address) = value; });
    else
      return kInvalidValue;
  }
  on->put_all(std::move(launch));
  return kSuccess;
}
STAND_IN Result cuLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  if (is_invalid(*stream_of(stream))) return kCaptureInvalidated;
  stream_of(stream)->put([=] { function(data); });
  return kSuccess;
}

STAND_IN Result cuEventCreate(void** event, unsigned) {
  *event = new Event;
  return kSuccess;
}
STAND_IN Result cuEventDestroy_v2(void* event) {
  delete static_cast<Event*>(event);
  return kSuccess;
}
STAND_IN Result cuEventRecord(void* handle, void* stream) {
  if (is_invalid(*stream_of(stream))) return kCaptureInvalidated;
  auto point = std::make_shared<Point>();
  point->capture = stream_of(stream)->capture();
  if (!point->capture)
    stream_of(stream)->put([point] {
      const std::lock_guard lock(point->mutex);
      point->done = true;
      point->reached.notify_all();
    });
  auto& event = *static_cast<Event*>(handle);
  const std::lock_guard lock(event.mutex);
  event.last = std::move(point);
  return kSuccess;
}
STAND_IN Result cuEventQuery(void* handle) {
  if (of_thread().current.empty()) return kInvalidContext;
  auto& event = *static_cast<Event*>(handle);
  const std::lock_guard lock(event.mutex);
  if (!event.last) return kSuccess;
  const std::lock_guard point_lock(event.last->mutex);
  return event.last->done ? kSuccess : kNotReady;
}
STAND_IN Result cuStreamWaitEvent(void* stream, void* handle, unsigned) {
  Stream* const on = stream_of(stream);
  if (is_invalid(*on)) return kCaptureInvalidated;
  auto& event = *static_cast<Event*>(handle);
  const std::lock_guard lock(event.mutex);
  const std::shared_ptr<Point> point = event.last;
  if (!point) return kSuccess;
  const auto capture = on->capture();
  if (point->capture) {  // the stream takes part from here on
    if (capture && capture != point->capture) return kCaptureIsolation;
    on->set_capture(point->capture);
    return kSuccess;
  }
  if (capture) return kCaptureIsolation;
  on->put([point] {
    std::unique_lock point_lock(point->mutex);
    point->reached.wait(point_lock, [&] { return point->done; });
  });
  return kSuccess;
}

STAND_IN Result cuStreamGetCaptureInfo_v2(void* stream, int* status, std::uint64_t* id, void**,
                                          const void***, std::size_t*) {
  Stream* const on = stream_of(stream);
  if (on == nullptr) return kInvalidContext;
  const auto capture = on->capture();
  *status = !capture ? 0 : capture->invalid ? 2 : 1;
  if (*status == 1) *id = capture->id;
  return kSuccess;
}
STAND_IN Result cuStreamBeginCapture_v2(void* stream, int) {
  static std::atomic<std::uint64_t> captures = 0;
  auto capture = std::make_shared<Capture>();
  capture->id = ++captures;
  stream_of(stream)->set_capture(std::move(capture));
  return kSuccess;
}
STAND_IN Result cuStreamEndCapture(void* stream, void** graph) {
  const auto capture = stream_of(stream)->capture();
  if (!capture) return kInvalidValue;
  end_capture(capture);
  if (capture->invalid) return kCaptureInvalidated;
  *graph = new Graph{capture->work};
  return kSuccess;
}
STAND_IN Result cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  *executable = new Graph(*static_cast<Graph*>(graph));
  return kSuccess;
}
STAND_IN Result cuGraphLaunch(void* executable, void* stream) {
  stream_of(stream)->put_all(static_cast<Graph*>(executable)->work);
  return kSuccess;
}
STAND_IN Result cuGraphExecDestroy(void* executable) {
  delete static_cast<Graph*>(executable);
  return kSuccess;
}
STAND_IN Result cuGraphDestroy(void* graph) {
  delete static_cast<Graph*>(graph);
  return kSuccess;
}

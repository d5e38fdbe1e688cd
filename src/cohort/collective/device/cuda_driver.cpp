#include "cohort/collective/device/cuda_driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "cohort/base/error.h"

namespace cohort::collective {

namespace {

// What cuda.h calls CUresult, CUdevice, CUdeviceptr and so on: integers and pointers, whose sizes
// the driver has kept since CUDA 3.2 (the names with _v2).
using CudaResult = int;
using CudaDevice = int;

constexpr CudaResult kSuccess = 0;
constexpr CudaResult kNotReady = 600;
constexpr CudaResult kPeerAccessAlreadyEnabled = 704;
constexpr CudaResult kFirstOfCapture = 900;  // what is not allowed while a stream is captured
constexpr CudaResult kLastOfCapture = 908;

constexpr unsigned kIpcLazyEnablePeerAccess = 1;
constexpr unsigned kHostRegisterPortable = 1;
constexpr unsigned kHostRegisterDeviceMap = 2;
constexpr unsigned kEventDisableTiming = 2;
constexpr unsigned kWaitValueAnd = 2;
constexpr int kCaptureActive = 1;
constexpr int kCaptureInvalidated = 2;
constexpr std::size_t kMaxBatch = 128;  // the driver takes fewer than 256

struct CudaIpcHandle {  // passed by value
  char bytes[64];
};

struct CudaMemOp {  // CUstreamBatchMemOpParams: a union of 48 bytes
  int operation;    // 1: wait for 32 bits, 2: write 32 bits
  std::uint64_t address;
  std::uint64_t value;
  unsigned flags;
  std::uint64_t alias;
  std::uint64_t unused;
};
static_assert(sizeof(CudaMemOp) == 48 && offsetof(CudaMemOp, flags) == 24);

}  // namespace

struct CudaDriver::Calls {
  CudaResult (*init)(unsigned);
  CudaResult (*error_name)(CudaResult, const char**);
  CudaResult (*error_string)(CudaResult, const char**);
  CudaResult (*driver_version)(int*);
  CudaResult (*device_count)(int*);
  CudaResult (*device_get)(CudaDevice*, int);
  CudaResult (*device_name)(char*, int, CudaDevice);
  CudaResult (*device_memory)(std::size_t*, CudaDevice);
  CudaResult (*device_uuid)(std::byte*, CudaDevice);
  CudaResult (*primary_context_retain)(Context*, CudaDevice);
  CudaResult (*context_current)(Context*);
  CudaResult (*context_set)(Context);
  CudaResult (*context_push)(Context);
  CudaResult (*context_pop)(Context*);
  CudaResult (*context_device)(CudaDevice*);
  CudaResult (*context_synchronize)();
  CudaResult (*enable_peer)(Context, unsigned);
  CudaResult (*allocate)(Address*, std::size_t);
  CudaResult (*free)(Address);
  CudaResult (*ipc_handle)(CudaIpcHandle*, Address);
  CudaResult (*ipc_open)(Address*, CudaIpcHandle, unsigned);
  CudaResult (*ipc_close)(Address);
  CudaResult (*host_register)(void*, std::size_t, unsigned);
  CudaResult (*host_address)(Address*, void*, unsigned);
  CudaResult (*host_unregister)(void*);
  CudaResult (*copy)(Address, Address, std::size_t, DeviceStream);
  CudaResult (*words)(DeviceStream, unsigned, CudaMemOp*, unsigned);
  CudaResult (*event_create)(Event*, unsigned);
  CudaResult (*event_record)(Event, DeviceStream);
  CudaResult (*event_query)(Event);
  CudaResult (*event_destroy)(Event);
  CudaResult (*stream_wait)(DeviceStream, Event, unsigned);
  CudaResult (*capture_info)(DeviceStream, int*, std::uint64_t*, void**, const void***,
                             std::size_t*);

  // The names of what `library` lacks; empty: nothing.
  std::string resolve(void* library);
};

std::string CudaDriver::Calls::resolve(void* library) {
  std::string missing;
  const auto get = [&](auto& function, const char* name) {
    void* symbol = ::dlsym(library, name);
    if (symbol == nullptr) missing += missing.empty() ? name : fmt::format(", {}", name);
    function = reinterpret_cast<std::decay_t<decltype(function)>>(symbol);
  };
  get(init, "cuInit");
  get(error_name, "cuGetErrorName");
  get(error_string, "cuGetErrorString");
  get(driver_version, "cuDriverGetVersion");
  get(device_count, "cuDeviceGetCount");
  get(device_get, "cuDeviceGet");
  get(device_name, "cuDeviceGetName");
  get(device_memory, "cuDeviceTotalMem_v2");
  get(device_uuid, "cuDeviceGetUuid_v2");
  get(primary_context_retain, "cuDevicePrimaryCtxRetain");
  get(context_current, "cuCtxGetCurrent");
  get(context_set, "cuCtxSetCurrent");
  get(context_push, "cuCtxPushCurrent_v2");
  get(context_pop, "cuCtxPopCurrent_v2");
  get(context_device, "cuCtxGetDevice");
  get(context_synchronize, "cuCtxSynchronize");
  get(enable_peer, "cuCtxEnablePeerAccess");
  get(allocate, "cuMemAlloc_v2");
  get(free, "cuMemFree_v2");
  get(ipc_handle, "cuIpcGetMemHandle");
  get(ipc_open, "cuIpcOpenMemHandle_v2");
  get(ipc_close, "cuIpcCloseMemHandle");
  get(host_register, "cuMemHostRegister_v2");
  get(host_address, "cuMemHostGetDevicePointer_v2");
  get(host_unregister, "cuMemHostUnregister");
  get(copy, "cuMemcpyAsync");
  get(words, "cuStreamBatchMemOp_v2");
  get(event_create, "cuEventCreate");
  get(event_record, "cuEventRecord");
  get(event_query, "cuEventQuery");
  get(event_destroy, "cuEventDestroy_v2");
  get(stream_wait, "cuStreamWaitEvent");
  get(capture_info, "cuStreamGetCaptureInfo_v2");
  return missing;
}

const CudaDriver* CudaDriver::find(std::string* why) {
  struct Found {
    Calls calls{};
    std::optional<CudaDriver> driver;
    std::string why;

    Found() {
      void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // never closed
      if (library == nullptr) {
        why = fmt::format("NVIDIA's driver was not found: {}", ::dlerror());
        return;
      }
      if (const std::string missing = calls.resolve(library); !missing.empty()) {
        why = fmt::format("libcuda.so.1 is older than CUDA 11.7: it has no {}", missing);
        return;
      }
      const CudaDriver candidate(calls);
      try {
        candidate.check(calls.init(0), "cuInit");
        if (candidate.devices().empty())
          why = "NVIDIA's driver knows of no GPU";
        else
          driver.emplace(candidate);
      } catch (const Error& error) {
        why = fmt::format("NVIDIA's driver does not work: {}", error.message());
      }
    }
  };
  static const Found found;
  if (found.driver) return &*found.driver;
  if (why != nullptr) *why = found.why;
  return nullptr;
}

void CudaDriver::check(int result, const char* call) const {
  if (result == kSuccess) return;
  const char* name = nullptr;
  const char* text = nullptr;
  calls_->error_name(result, &name);
  calls_->error_string(result, &text);
  throw Error(fmt::format("{}: {} ({})", call, text != nullptr ? text : "unknown error",
                          name != nullptr ? name : std::to_string(result)));
}

int CudaDriver::version() const {
  int version = 0;
  check(calls_->driver_version(&version), "cuDriverGetVersion");
  return version;
}

std::vector<CudaDriver::Device> CudaDriver::devices() const {
  int count = 0;
  check(calls_->device_count(&count), "cuDeviceGetCount");
  std::vector<Device> devices(static_cast<std::size_t>(count));
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    Device& device = devices[static_cast<std::size_t>(ordinal)];
    CudaDevice number = 0;
    check(calls_->device_get(&number, ordinal), "cuDeviceGet");
    char name[256] = {};
    check(calls_->device_name(name, sizeof name - 1, number), "cuDeviceGetName");
    device.name = name;
    check(calls_->device_uuid(device.uuid.data(), number), "cuDeviceGetUuid");
    check(calls_->device_memory(&device.memory, number), "cuDeviceTotalMem");
  }
  return devices;
}

CudaDriver::Context CudaDriver::current_context() const {
  Context context = nullptr;
  check(calls_->context_current(&context), "cuCtxGetCurrent");
  return context;
}

CudaDriver::Uuid CudaDriver::current_device() const {
  CudaDevice device = 0;
  check(calls_->context_device(&device), "cuCtxGetDevice");
  Uuid uuid{};
  check(calls_->device_uuid(uuid.data(), device), "cuDeviceGetUuid");
  return uuid;
}

void CudaDriver::use_device(int ordinal) const {
  CudaDevice device = 0;
  check(calls_->device_get(&device, ordinal), "cuDeviceGet");
  Context context = nullptr;
  check(calls_->primary_context_retain(&context, device), "cuDevicePrimaryCtxRetain");
  check(calls_->context_set(context), "cuCtxSetCurrent");
}

void CudaDriver::enable_peer_access(Context peer) const {
  const CudaResult result = calls_->enable_peer(peer, 0);
  if (result != kPeerAccessAlreadyEnabled) check(result, "cuCtxEnablePeerAccess");
}

bool CudaDriver::synchronize() const noexcept {
  const CudaResult result = calls_->context_synchronize();
  return result < kFirstOfCapture || result > kLastOfCapture;
}

CudaDriver::Address CudaDriver::allocate(std::size_t bytes) const {
  Address memory = 0;
  check(calls_->allocate(&memory, bytes), "cuMemAlloc");
  return memory;
}

void CudaDriver::free(Address memory) const noexcept { calls_->free(memory); }

CudaDriver::IpcHandle CudaDriver::handle_of(Address memory) const {
  CudaIpcHandle handle{};
  check(calls_->ipc_handle(&handle, memory), "cuIpcGetMemHandle");
  IpcHandle result;
  std::memcpy(result.data(), handle.bytes, result.size());
  return result;
}

CudaDriver::Address CudaDriver::open(const IpcHandle& handle) const {
  CudaIpcHandle value{};
  std::memcpy(value.bytes, handle.data(), handle.size());
  Address memory = 0;
  check(calls_->ipc_open(&memory, value, kIpcLazyEnablePeerAccess), "cuIpcOpenMemHandle");
  return memory;
}

void CudaDriver::close(Address memory) const noexcept { calls_->ipc_close(memory); }

void CudaDriver::register_host(void* memory, std::size_t bytes) const {
  check(calls_->host_register(memory, bytes, kHostRegisterPortable | kHostRegisterDeviceMap),
        "cuMemHostRegister");
}

CudaDriver::Address CudaDriver::address_of_host(void* memory) const {
  Address address = 0;
  check(calls_->host_address(&address, memory, 0), "cuMemHostGetDevicePointer");
  return address;
}

void CudaDriver::unregister_host(void* memory) const noexcept { calls_->host_unregister(memory); }

void CudaDriver::copy(Address to, Address from, std::size_t bytes, DeviceStream stream) const {
  if (bytes > 0 && to != from) check(calls_->copy(to, from, bytes, stream), "cuMemcpyAsync");
}

void CudaDriver::run(std::span<const WordStep> steps, DeviceStream stream) const {
  while (!steps.empty()) {
    const auto part = steps.first(std::min(steps.size(), kMaxBatch));
    CudaMemOp operations[kMaxBatch] = {};
    for (std::size_t i = 0; i < part.size(); ++i) {
      const bool wait = part[i].kind == WordStep::Kind::wait;
      operations[i].operation = wait ? 1 : 2;
      operations[i].address = part[i].word;
      operations[i].value = part[i].value;
      operations[i].flags = wait ? kWaitValueAnd : 0;
    }
    check(calls_->words(stream, static_cast<unsigned>(part.size()), operations, 0),
          "cuStreamBatchMemOp");
    steps = steps.subspan(part.size());
  }
}

CudaDriver::Event CudaDriver::make_event() const {
  Event event = nullptr;
  check(calls_->event_create(&event, kEventDisableTiming), "cuEventCreate");
  return event;
}

void CudaDriver::record(Event event, DeviceStream stream) const {
  check(calls_->event_record(event, stream), "cuEventRecord");
}

void CudaDriver::wait_for(Event event, DeviceStream stream) const {
  check(calls_->stream_wait(stream, event, 0), "cuStreamWaitEvent");
}

bool CudaDriver::reached(Event event) const noexcept {
  return calls_->event_query(event) != kNotReady;
}

void CudaDriver::destroy(Event event) const noexcept { calls_->event_destroy(event); }

std::uint64_t CudaDriver::capture_of(DeviceStream stream) const {
  int status = 0;
  std::uint64_t id = 0;
  check(calls_->capture_info(stream, &status, &id, nullptr, nullptr, nullptr),
        "cuStreamGetCaptureInfo");
  if (status == kCaptureInvalidated) return kBrokenCapture;
  return status == kCaptureActive ? id : 0;
}

CudaDriver::UseContext::UseContext(const CudaDriver& driver, Context context) noexcept
    : driver_(driver), pushed_(driver.calls_->context_push(context) == kSuccess) {}

CudaDriver::UseContext::~UseContext() {
  Context popped = nullptr;
  if (pushed_) driver_.calls_->context_pop(&popped);
}

}  // namespace cohort::collective

#include "gpu.h"

#include <dlfcn.h>
#include <poll.h>

#include <cstdint>
#include <stdexcept>

namespace cohort::collective::testing {

namespace {

// Of the driver that CudaDriver has loaded; nullptr: there is no such call.
void* find_symbol(const char* name) {
  static void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library == nullptr ? nullptr : ::dlsym(library, name);
}

// The driver's calls that only tests make.
template <typename... Arguments>
void call(const char* name, Arguments... arguments) {
  void* symbol = find_symbol(name);
  if (symbol == nullptr) throw std::runtime_error(std::string(name) + " is not there");
  const int result = reinterpret_cast<int (*)(Arguments...)>(symbol)(arguments...);
  if (result != 0) throw std::runtime_error(std::string(name) + ": " + std::to_string(result));
}

std::uint64_t address_of(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

const CudaDriver& found() {
  std::string why;
  const CudaDriver* driver = CudaDriver::find(&why);
  if (driver == nullptr) throw std::runtime_error(why);
  return *driver;
}

}  // namespace

std::size_t Gpu::count() {
  const CudaDriver* driver = CudaDriver::find();
  return driver == nullptr ? 0 : driver->devices().size();
}

bool Gpu::is_stand_in() {
  return count() > 0 && find_symbol("cohort_stand_in_cuda_fail") != nullptr;
}

void Gpu::fail_call(const char* name) {
  void* symbol = find_symbol("cohort_stand_in_cuda_fail");
  reinterpret_cast<void (*)(const char*)>(symbol)(name);
}

int Gpu::stand_in_mappings() {
  void* symbol = find_symbol("cohort_stand_in_cuda_mappings");
  return reinterpret_cast<int (*)()>(symbol)();
}

int Gpu::stand_in_blocked_calls() {
  void* symbol = find_symbol("cohort_stand_in_cuda_blocked_calls");
  return reinterpret_cast<int (*)()>(symbol)();
}

Gpu::Gpu(int ordinal) : driver_(found()) { driver_.use_device(ordinal); }

Gpu::~Gpu() {
  for (void* graph : graphs_) call("cuGraphExecDestroy", graph);
  for (DeviceStream stream : streams_) call("cuStreamDestroy_v2", stream);
  for (const CudaDriver::Address memory : memory_) driver_.free(memory);
  for (void* memory : host_memory_) call("cuMemFreeHost", memory);
}

DeviceStream Gpu::make_stream() {
  constexpr unsigned kNonBlocking = 1;
  DeviceStream stream = nullptr;
  call("cuStreamCreate", &stream, kNonBlocking);
  streams_.push_back(stream);
  return stream;
}

std::byte* Gpu::allocate(std::size_t bytes) {
  memory_.push_back(driver_.allocate(bytes));
  return reinterpret_cast<std::byte*>(memory_.back());
}

void Gpu::copy(void* to, const void* from, std::size_t bytes, DeviceStream stream) const {
  driver_.copy(address_of(to), address_of(from), bytes, stream);
}

bool Gpu::wait(DeviceStream stream, Deadline deadline) const {
  const CudaDriver::Event event = driver_.make_event();
  driver_.record(event, stream);
  while (!driver_.reached(event) && !deadline.expired()) ::poll(nullptr, 0, 1);
  const bool done = driver_.reached(event);
  driver_.destroy(event);
  return done;
}

void Gpu::begin_capture(DeviceStream stream) const {
  constexpr int kThreadLocal = 1;
  call("cuStreamBeginCapture_v2", stream, kThreadLocal);
}

void* Gpu::end_capture(DeviceStream stream) {
  void* graph = nullptr;
  void* executable = nullptr;
  call("cuStreamEndCapture", stream, &graph);
  call("cuGraphInstantiateWithFlags", &executable, graph, 0ull);
  call("cuGraphDestroy", graph);
  graphs_.push_back(executable);
  return executable;
}

void Gpu::launch(void* graph, DeviceStream stream) const { call("cuGraphLaunch", graph, stream); }

std::byte* Gpu::allocate_host(std::size_t bytes) {
  void* memory = nullptr;
  call("cuMemAllocHost_v2", &memory, bytes);
  host_memory_.push_back(memory);
  return static_cast<std::byte*>(memory);
}

void Gpu::call_host(DeviceStream stream, void (*function)(void*), void* data) const {
  call("cuLaunchHostFunc", stream, function, data);
}

}  // namespace cohort::collective::testing

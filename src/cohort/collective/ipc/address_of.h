#pragma once

#include <cstdint>

#include "cohort/collective/device/cuda_driver.h"

namespace cohort::collective::ipc {

inline CudaDriver::Address address_of(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory);
}
inline void* pointer_to(CudaDriver::Address memory) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(memory));
}

}  // namespace cohort::collective::ipc

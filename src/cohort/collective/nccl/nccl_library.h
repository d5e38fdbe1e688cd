#pragma once

#include <climits>
#include <cstddef>
#include <memory>
#include <string>

#include "cohort/collective/device/device_group.h"

namespace cohort::collective::nccl {

// The part of NCCL's binary interface that is used here. It has been the same since 2.14, the first
// version with communicators that do not block.

using Comm = struct NcclComm*;

struct UniqueId {
  char bytes[128];
};

enum class Result : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
  timeout = 8,  // since 2.30
};

enum class Type : int { i8 = 0, u8 = 1, i32 = 2, i64 = 4, f16 = 6, f32 = 7, f64 = 8, bf16 = 9 };
enum class Op : int { sum = 0, product = 1, maximum = 2, minimum = 3, average = 4 };

// The first fields of NCCL's. NCCL copies `bytes` bytes over its defaults and then takes back what
// `version` did not have, so newer fields keep their defaults whatever the library's version. The
// last field is there because the structure's size counts it.
struct Config {
  std::size_t bytes = sizeof(Config);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21400;
  int blocking = 0;
  int cga_cluster_size = INT_MIN;  // "not set"
};
static_assert(sizeof(Config) == 24 && offsetof(Config, blocking) == 16);

// One libnccl.so.2. Thread-safe; as are NCCL's functions but for those on one communicator.
class NcclLibrary {
 public:
  // The process's: the one that is loaded already (by LibTorch, or LD_PRELOAD), else the one on the
  // loader's paths, else the one in the folder of packages of which LibTorch is loaded. It stays.
  // nullptr where there is none; `why` then says what was looked for and failed.
  static const NcclLibrary* find(std::string* why = nullptr);
  // The one in this file, or nullptr.
  static std::unique_ptr<NcclLibrary> open(const std::string& file, std::string* why);
  ~NcclLibrary();
  NcclLibrary(const NcclLibrary&) = delete;
  NcclLibrary& operator=(const NcclLibrary&) = delete;

  int version() const;  // 22809: 2.28.9

  Result (*get_version)(int* version) = nullptr;
  Result (*get_unique_id)(UniqueId* id) = nullptr;
  Result (*comm_init_rank_config)(Comm* comm, int size, UniqueId id, int rank,
                                  Config* config) = nullptr;
  Result (*comm_get_async_error)(Comm comm, Result* state) = nullptr;
  Result (*comm_abort)(Comm comm) = nullptr;
  const char* (*get_error_string)(Result result) = nullptr;
  const char* (*get_last_error)(Comm comm) = nullptr;
  Result (*group_start)() = nullptr;
  Result (*group_end)() = nullptr;
  Result (*all_reduce)(const void* in, void* out, std::size_t count, Type type, Op op, Comm comm,
                       DeviceStream stream) = nullptr;
  Result (*reduce_scatter)(const void* in, void* out, std::size_t count, Type type, Op op,
                           Comm comm, DeviceStream stream) = nullptr;
  Result (*all_gather)(const void* in, void* out, std::size_t count, Type type, Comm comm,
                       DeviceStream stream) = nullptr;
  Result (*broadcast)(const void* in, void* out, std::size_t count, Type type, int root, Comm comm,
                      DeviceStream stream) = nullptr;
  Result (*send)(const void* data, std::size_t count, Type type, int peer, Comm comm,
                 DeviceStream stream) = nullptr;
  Result (*receive)(void* data, std::size_t count, Type type, int peer, Comm comm,
                    DeviceStream stream) = nullptr;

 private:
  explicit NcclLibrary(void* handle) : handle_(handle) {}
  static std::unique_ptr<NcclLibrary> search(std::string* why);
  bool resolve(std::string* why);
  void* handle_;
};

std::string version_text(int version);  // "2.28.9"

}  // namespace cohort::collective::nccl

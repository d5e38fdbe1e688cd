#include "cohort/collective/nccl/nccl_library.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <link.h>

#include <string_view>
#include <vector>

#include "cohort/base/text.h"

namespace cohort::collective::nccl {

namespace {

constexpr const char* kName = "libnccl.so.2";
constexpr int kOldest = 21400;

// Where PyPI's packages and LibTorch's archive have NCCL, as seen from a loaded libtorch_cuda.so.
std::vector<std::string> files_beside_torch() {
  std::vector<std::string> files;
  const auto look = [](dl_phdr_info* info, std::size_t, void* data) {
    const std::string_view file = info->dlpi_name;
    const auto slash = file.rfind('/');
    if (slash != std::string_view::npos && file.substr(slash + 1) == "libtorch_cuda.so") {
      auto& found = *static_cast<std::vector<std::string>*>(data);
      const std::string folder(file.substr(0, slash));
      found.push_back(fmt::format("{}/../../nvidia/nccl/lib/{}", folder, kName));
      found.push_back(fmt::format("{}/{}", folder, kName));
    }
    return 0;
  };
  dl_iterate_phdr(look, &files);
  return files;
}

std::string loader_error() {
  const char* text = dlerror();
  return text == nullptr ? "the loader gave no reason" : text;
}

}  // namespace

NcclLibrary::~NcclLibrary() { dlclose(handle_); }

int NcclLibrary::version() const {
  int version = 0;
  return get_version(&version) == Result::success ? version : 0;
}

bool NcclLibrary::resolve(std::string* why) {
  std::string missing;
  const auto take = [&](auto& function, const char* symbol) {
    void* address = dlsym(handle_, symbol);
    if (address == nullptr && missing.empty()) missing = symbol;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  take(get_version, "ncclGetVersion");
  take(get_unique_id, "ncclGetUniqueId");
  take(comm_init_rank_config, "ncclCommInitRankConfig");
  take(comm_get_async_error, "ncclCommGetAsyncError");
  take(comm_abort, "ncclCommAbort");
  take(get_error_string, "ncclGetErrorString");
  take(get_last_error, "ncclGetLastError");
  take(group_start, "ncclGroupStart");
  take(group_end, "ncclGroupEnd");
  take(all_reduce, "ncclAllReduce");
  take(reduce_scatter, "ncclReduceScatter");
  take(all_gather, "ncclAllGather");
  take(broadcast, "ncclBroadcast");
  take(send, "ncclSend");
  take(receive, "ncclRecv");
  if (!missing.empty())
    *why = fmt::format("{} has no function {}: it is older than NCCL 2.14, or is not NCCL", kName,
                       missing);
  else if (version() < kOldest)
    *why = fmt::format("NCCL {} is older than 2.14", version_text(version()));
  else
    return true;
  return false;
}

std::unique_ptr<NcclLibrary> NcclLibrary::open(const std::string& file, std::string* why) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    *why = loader_error();
    return nullptr;
  }
  std::unique_ptr<NcclLibrary> library(new NcclLibrary(handle));
  return library->resolve(why) ? std::move(library) : nullptr;
}

std::unique_ptr<NcclLibrary> NcclLibrary::search(std::string* why) {
  // One that is loaded is taken or refused: a second NCCL beside LibTorch's would be another version
  // of the same symbols.
  if (void* loaded = dlopen(kName, RTLD_NOW | RTLD_NOLOAD); loaded != nullptr) {
    std::unique_ptr<NcclLibrary> library(new NcclLibrary(loaded));
    return library->resolve(why) ? std::move(library) : nullptr;
  }
  std::vector<std::string> files{kName};
  for (std::string& file : files_beside_torch()) files.push_back(std::move(file));
  std::vector<std::string> failures;
  for (const std::string& file : files) {
    std::string failure;
    if (auto library = open(file, &failure)) return library;
    failures.push_back(std::move(failure));
  }
  *why = fmt::format("there is no NCCL that works: {}", join(failures, "; "));
  return nullptr;
}

const NcclLibrary* NcclLibrary::find(std::string* why) {
  struct Found {
    std::string why;
    std::unique_ptr<NcclLibrary> library = search(&why);
  };
  // Never unloaded: NCCL's own threads may outlive this process's static objects.
  static const Found* found = new Found;
  if (why != nullptr) *why = found->why;
  return found->library.get();
}

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace cohort::collective::nccl

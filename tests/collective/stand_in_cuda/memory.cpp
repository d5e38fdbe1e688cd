#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <string>

namespace stand_in {

namespace {

constexpr std::int32_t kMagic = 0x57414e44;

struct Mapping {
  int fd = -1;  // of what this process has allocated
  std::size_t bytes = 0;
};
struct Mappings {
  std::mutex mutex;
  std::map<std::uint64_t, Mapping> by_address;
  std::map<std::uintptr_t, std::size_t> registered;  // bytes of the host's, by address
};
Mappings& all_mappings() {
  static Mappings& all = *new Mappings;
  return all;
}

std::uint64_t add(int fd, std::size_t bytes, bool keep) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return 0;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  Mappings& all = all_mappings();
  const std::lock_guard lock(all.mutex);
  all.by_address[address] = {keep ? fd : -1, bytes};
  return address;
}

bool remove(std::uint64_t memory, bool own) {
  Mappings& all = all_mappings();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_address.find(memory);
  if (found == all.by_address.end() || (found->second.fd >= 0) != own) return false;
  ::munmap(reinterpret_cast<void*>(memory), found->second.bytes);
  if (own) ::close(found->second.fd);
  all.by_address.erase(found);
  return true;
}

}  // namespace

std::uint64_t allocate(std::size_t bytes) {
  const int fd = ::memfd_create("stand-in-cuda", MFD_CLOEXEC);
  if (fd < 0) return 0;
  const bool sized = ::ftruncate(fd, static_cast<off_t>(bytes)) == 0;
  const std::uint64_t address = sized ? add(fd, bytes, true) : 0;
  if (address == 0) ::close(fd);
  return address;
}

bool free(std::uint64_t memory) { return remove(memory, true); }

bool handle_of(std::uint64_t memory, Handle& handle) {
  Mappings& all = all_mappings();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_address.find(memory);
  if (found == all.by_address.end() || found->second.fd < 0) return false;
  handle = {kMagic, ::getpid(), found->second.fd, 0, found->second.bytes, {}};
  return true;
}

std::uint64_t open(const Handle& handle) {
  // As the driver: memory of this process is not opened, but used as it is.
  if (handle.magic != kMagic || handle.pid == ::getpid()) return 0;
  const std::string path =
      "/proc/" + std::to_string(handle.pid) + "/fd/" + std::to_string(handle.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return 0;
  const std::uint64_t address = add(fd, handle.bytes, false);
  ::close(fd);
  return address;
}

bool close(std::uint64_t memory) { return remove(memory, false); }

bool register_host(void* memory, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  Mappings& all = all_mappings();
  const std::lock_guard lock(all.mutex);
  for (const auto& [other, size] : all.registered)
    if (begin < other + size && other < begin + bytes) return false;
  all.registered[begin] = bytes;
  return true;
}

bool unregister_host(void* memory) {
  Mappings& all = all_mappings();
  const std::lock_guard lock(all.mutex);
  return all.registered.erase(reinterpret_cast<std::uintptr_t>(memory)) == 1;
}

int mappings() {
  Mappings& all = all_mappings();
  const std::lock_guard lock(all.mutex);
  return static_cast<int>(all.by_address.size() + all.registered.size());
}

}  // namespace stand_in

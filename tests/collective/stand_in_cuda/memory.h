#pragma once

#include <cstddef>
#include <cstdint>

// Memory "on a GPU" of the stand-in: memory files, which other processes open through /proc and
// which go with their last process, also one that is killed.
namespace stand_in {

struct Handle {
  std::int32_t magic;
  std::int32_t pid;
  std::int32_t fd;
  std::int32_t unused;
  std::uint64_t bytes;
  char rest[40];
};
static_assert(sizeof(Handle) == 64);

std::uint64_t allocate(std::size_t bytes);  // 0: none
bool free(std::uint64_t memory);
bool handle_of(std::uint64_t memory, Handle& handle);
std::uint64_t open(const Handle& handle);  // 0: not to be had
bool close(std::uint64_t memory);
// Memory of the host that GPUs may reach; false: some of it is registered already, or not.
bool register_host(void* memory, std::size_t bytes);
bool unregister_host(void* memory);
// What is allocated, opened or registered, and not given back.
int mappings();

}  // namespace stand_in

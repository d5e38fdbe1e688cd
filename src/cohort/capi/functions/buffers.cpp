#include "cohort/capi/functions/buffers.h"

#include <map>
#include <mutex>

namespace cohort::capi {

namespace {

struct Buffers {
  std::mutex mutex;  // guards `all`
  std::map<void*, collective::Buffer> all;
};

Buffers& kept_buffers() {
  static auto* const buffers = new Buffers;  // threads may outlive static objects
  return *buffers;
}

}  // namespace

void* keep_buffer(collective::Buffer buffer) {
  void* memory = buffer.data();
  const std::lock_guard lock(kept_buffers().mutex);
  kept_buffers().all.insert_or_assign(memory, std::move(buffer));
  return memory;
}

void free_buffer(void* memory) {
  decltype(Buffers::all)::node_type freed;
  const std::lock_guard lock(kept_buffers().mutex);
  freed = kept_buffers().all.extract(memory);
}

}  // namespace cohort::capi

#include "cohort/ps/server/receive_buffers.h"

#include <new>
#include <utility>

namespace cohort::ps {

namespace {

constexpr std::align_val_t kBufferAlignment{64};
// Sizes in the pool are multiples of this: slices differ by little.
constexpr std::size_t kBufferGranule = 4096;

}  // namespace

void ReceiveBuffers::Free::operator()(std::byte* memory) const {
  ::operator delete(memory, kBufferAlignment);
}

ReceiveBuffers::ReceiveBuffers(std::size_t max_idle_bytes) : max_idle_bytes_(max_idle_bytes) {}

std::shared_ptr<std::byte> ReceiveBuffers::get(std::size_t bytes) {
  const std::size_t size = (bytes + kBufferGranule - 1) / kBufferGranule * kBufferGranule;
  Buffer buffer;
  if (auto found = idle_->by_size.find(size); found != idle_->by_size.end()) {
    buffer = std::move(found->second.back());
    found->second.pop_back();
    if (found->second.empty()) idle_->by_size.erase(found);
    idle_->bytes -= size;
  } else {
    buffer.reset(static_cast<std::byte*>(::operator new(size, kBufferAlignment)));
  }
  std::weak_ptr<Idle> idle = idle_;
  return {buffer.release(), [idle, size, max = max_idle_bytes_](std::byte* memory) {
            Buffer back(memory);
            const auto pool = idle.lock();
            if (pool == nullptr || pool->bytes + size > max) return;
            pool->by_size[size].push_back(std::move(back));
            pool->bytes += size;
          }};
}

}  // namespace cohort::ps

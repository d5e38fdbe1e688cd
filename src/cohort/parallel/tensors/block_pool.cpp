#include "cohort/parallel/tensors/block_pool.h"

#include <sys/mman.h>

#include <new>

#include "cohort/base/error.h"

namespace cohort::parallel {

std::shared_ptr<BlockPool> BlockPool::of_this_process() {
  return std::make_shared<BlockPool>([](std::size_t bytes) {
    // Where the system has huge pages for those who ask, one fault in place of 512.
    constexpr std::size_t kHugePage = 2 << 20;
    constexpr std::size_t kPage = 4096;
    const bool is_huge = bytes >= kHugePage;  // a smaller block would be rounded up to one
    const std::align_val_t alignment{is_huge ? kHugePage : kPage};
    void* memory = ::operator new(bytes, alignment);
    if (is_huge) ::madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
    return std::shared_ptr<void>(memory,
                                 [alignment](void* block) { ::operator delete(block, alignment); });
  });
}

std::shared_ptr<BlockPool> BlockPool::of_group(collective::Group& group) {
  return std::make_shared<BlockPool>([&group](std::size_t bytes) -> std::shared_ptr<void> {
    try {
      auto buffer = std::make_shared<collective::Buffer>(group.allocate(bytes));
      return {buffer, buffer->data()};
    } catch (const Error&) {  // used up: an ordinary tensor does as well, only slower
      return nullptr;
    }
  });
}

std::unique_ptr<BlockPool::Block> BlockPool::take(std::size_t bytes) {
  auto block = std::make_unique<Block>(Block{shared_from_this(), bytes, nullptr});
  {
    std::lock_guard lock(mutex_);
    if (closed_) return nullptr;
    auto& waiting = waiting_[bytes];
    if (!waiting.empty()) {
      block->memory = std::move(waiting.back());
      waiting.pop_back();
      return block;
    }
  }
  block->memory = make_(bytes);
  return block->memory ? std::move(block) : nullptr;
}

void BlockPool::give_back(std::unique_ptr<Block> block) {
  BlockPool& pool = *block->pool;
  std::lock_guard lock(pool.mutex_);
  if (!pool.closed_) pool.waiting_[block->bytes].push_back(std::move(block->memory));
}

void BlockPool::close() {
  decltype(waiting_) waiting;
  std::lock_guard lock(mutex_);
  closed_ = true;
  waiting.swap(waiting_);
}

}  // namespace cohort::parallel

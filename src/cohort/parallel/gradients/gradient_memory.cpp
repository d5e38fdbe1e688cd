#include "cohort/parallel/gradients/gradient_memory.h"

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
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

namespace {

struct InUse {
  const void* use;
  std::shared_ptr<BlockPool> pool;
  const std::vector<std::size_t>* sizes;
};
thread_local std::vector<InUse> in_use;

// Empty when no pool has such a block.
at::DataPtr from_pools(std::size_t bytes) {
  for (const InUse& use : in_use) {
    if (std::find(use.sizes->begin(), use.sizes->end(), bytes) == use.sizes->end()) continue;
    auto block = use.pool->take(bytes);
    if (!block) continue;
    void* data = block->memory.get();
    const auto give_back = [](void* context) {
      BlockPool::give_back(
          std::unique_ptr<BlockPool::Block>(static_cast<BlockPool::Block*>(context)));
    };
    return {data, block.release(), give_back, at::Device(at::kCPU)};
  }
  return {};
}

// Signatures differ between versions of LibTorch: allocate() is const in some, copy_data() is not
// in all; so there is one of each kind, and no `override`.
class PoolsFirst final : public at::Allocator {
 public:
  explicit PoolsFirst(at::Allocator* others) : others_(others) {}

  at::DataPtr allocate(std::size_t bytes) const {
    if (at::DataPtr memory = from_pools(bytes)) return memory;
    return others_->allocate(bytes);
  }
  at::DataPtr allocate(std::size_t bytes) { return std::as_const(*this).allocate(bytes); }
  at::DeleterFnPtr raw_deleter() const { return others_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }

 private:
  at::Allocator* others_;
};

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    static PoolsFirst allocator(c10::GetCPUAllocator());
    c10::SetCPUAllocator(&allocator);
  });
}

}  // namespace

GradientMemory::GradientMemory(collective::Group& group, std::shared_ptr<BlockPool> own)
    : shared_(BlockPool::of_group(group)), own_(std::move(own)) {}

GradientMemory::~GradientMemory() { shared_->close(); }

GradientMemory::Use::Use(const GradientMemory& memory, Reader reader,
                         const std::vector<std::size_t>& sizes) {
  install();
  in_use.push_back({this, reader == Reader::other_ranks ? memory.shared_ : memory.own_, &sizes});
}

GradientMemory::Use::~Use() {
  std::erase_if(in_use, [this](const InUse& use) { return use.use == this; });
}

}  // namespace cohort::parallel

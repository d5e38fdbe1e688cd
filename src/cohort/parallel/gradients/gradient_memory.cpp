#include "cohort/parallel/gradients/gradient_memory.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace cohort::parallel {

namespace {

struct InUse {
  const void* use;
  std::shared_ptr<BlockPool> pool;
  const std::vector<std::size_t>* sizes;
};
thread_local std::vector<InUse> in_use;

// The pools' blocks that tensors have, by their address. LibTorch also takes memory without a tensor
// around it (Allocator::raw_allocate) and gives it back by its address alone.
class BlocksOut {
 public:
  void* add(std::unique_ptr<BlockPool::Block> block) {
    void* data = block->memory.get();
    std::lock_guard lock(mutex_);
    blocks_[data] = std::move(block);
    return data;
  }

  std::unique_ptr<BlockPool::Block> remove(void* data) {  // nullptr: it is no pool's
    std::lock_guard lock(mutex_);
    auto found = blocks_.extract(data);
    return found ? std::move(found.mapped()) : nullptr;
  }

  // Tensors may go after the program's static objects.
  static BlocksOut& of_this_process() {
    static auto* const blocks = new BlocksOut;
    return *blocks;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, std::unique_ptr<BlockPool::Block>> blocks_;
};

// Signatures differ between versions of LibTorch: allocate() is const in some, copy_data() is not
// in all; so there is one of each kind, and no `override`.
class PoolsFirst final : public at::Allocator {
 public:
  explicit PoolsFirst(at::Allocator* others) : others_(others) {
    delete_others = others->raw_deleter();
  }

  at::DataPtr allocate(std::size_t bytes) const {
    if (at::DataPtr memory = from_pools(bytes)) return memory;
    return others_->allocate(bytes);
  }
  at::DataPtr allocate(std::size_t bytes) { return std::as_const(*this).allocate(bytes); }
  at::DeleterFnPtr raw_deleter() const { return delete_others ? give_back : nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }

 private:
  // Empty when no pool has such a block.
  static at::DataPtr from_pools(std::size_t bytes) {
    for (const InUse& use : in_use) {
      if (std::find(use.sizes->begin(), use.sizes->end(), bytes) == use.sizes->end()) continue;
      auto block = use.pool->take(bytes);
      if (!block) continue;
      void* data = BlocksOut::of_this_process().add(std::move(block));
      return {data, data, give_back, at::Device(at::kCPU)};
    }
    return {};
  }

  static void give_back(void* data) {
    if (auto block = BlocksOut::of_this_process().remove(data))
      BlockPool::give_back(std::move(block));
    else
      delete_others(data);
  }

  static inline at::DeleterFnPtr delete_others = nullptr;
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

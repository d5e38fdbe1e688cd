#include "cohort/parallel/gradients/gradient_memory.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

namespace cohort::parallel {

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

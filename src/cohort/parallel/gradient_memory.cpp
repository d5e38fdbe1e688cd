#include "cohort/parallel/gradient_memory.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "cohort/base/error.h"

namespace cohort::parallel {

class GradientMemory::Pool : public std::enable_shared_from_this<Pool> {
 public:
  Pool(collective::Group& group, std::vector<std::size_t> sizes)
      : group_(&group), sizes_(std::move(sizes)) {}

  // A block with its way back; an empty pointer when this is not for the pool.
  at::DataPtr take(std::size_t bytes) {
    if (std::find(sizes_.begin(), sizes_.end(), bytes) == sizes_.end()) return {};
    auto block = std::make_unique<Block>();
    {
      std::lock_guard lock(mutex_);
      if (closed_) return {};
      auto& waiting = waiting_[bytes];
      if (!waiting.empty()) {
        block->memory = std::move(waiting.back());
        waiting.pop_back();
      }
    }
    if (block->memory.data() == nullptr) {
      try {
        block->memory = group_->allocate(bytes);
      } catch (const Error&) {  // used up: an ordinary tensor does as well, only slower
        return {};
      }
    }
    block->pool = shared_from_this();
    void* data = block->memory.data();
    return {data, block.release(), &give_back, at::Device(at::kCPU)};
  }

  // The object that owns the pool is gone: what comes back is freed.
  void close() {
    std::map<std::size_t, std::vector<collective::Buffer>> waiting;
    std::lock_guard lock(mutex_);
    closed_ = true;
    waiting.swap(waiting_);
  }

 private:
  struct Block {
    std::shared_ptr<Pool> pool;
    collective::Buffer memory;
  };

  static void give_back(void* context) {
    const std::unique_ptr<Block> block(static_cast<Block*>(context));
    Pool& pool = *block->pool;
    std::lock_guard lock(pool.mutex_);
    if (!pool.closed_) pool.waiting_[block->memory.bytes()].push_back(std::move(block->memory));
  }

  collective::Group* group_;  // used on a thread with a Use only
  const std::vector<std::size_t> sizes_;
  std::mutex mutex_;
  bool closed_ = false;
  std::map<std::size_t, std::vector<collective::Buffer>> waiting_;
};

namespace {

thread_local std::vector<std::shared_ptr<GradientMemory::Pool>> in_use;

// Signatures differ between versions of LibTorch: allocate() is const in some, copy_data() is not
// in all; so there is one of each kind, and no `override`.
class PoolsFirst final : public at::Allocator {
 public:
  explicit PoolsFirst(at::Allocator* others) : others_(others) {}

  at::DataPtr allocate(std::size_t bytes) const {
    for (const auto& pool : in_use)
      if (at::DataPtr memory = pool->take(bytes)) return memory;
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

GradientMemory::GradientMemory(collective::Group& group, std::vector<std::size_t> sizes)
    : pool_(std::make_shared<Pool>(group, std::move(sizes))) {
  install();
}

GradientMemory::~GradientMemory() { pool_->close(); }

GradientMemory::Use::Use(const GradientMemory& memory) : pool_(memory.pool_) {
  in_use.push_back(pool_);
}

GradientMemory::Use::~Use() { std::erase(in_use, pool_); }

}  // namespace cohort::parallel

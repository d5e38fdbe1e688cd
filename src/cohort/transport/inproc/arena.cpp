#include "cohort/transport/inproc/arena.h"

#include <cstring>
#include <mutex>
#include <new>
#include <set>

namespace cohort::transport::inproc {

namespace {

constexpr std::align_val_t kAlignment{4096};

// What the ranks have in common; goes with the last of them, and all their memory with it.
class ArenaHub {
 public:
  explicit ArenaHub(int size) {
    const std::size_t bytes = Arena::table_bytes(size);
    table_ = allocate(bytes);
    std::memset(table_, 0, bytes);
  }
  ~ArenaHub() {
    for (std::byte* block : blocks_) ::operator delete(block, kAlignment);
  }

  std::byte* table() const { return table_; }

  std::byte* allocate(std::size_t bytes) {
    auto* block = static_cast<std::byte*>(::operator new(bytes, kAlignment));
    std::lock_guard lock(mutex_);
    blocks_.insert(block);
    return block;
  }
  void free(std::byte* block) {
    {
      std::lock_guard lock(mutex_);
      blocks_.erase(block);
    }
    ::operator delete(block, kAlignment);
  }

 private:
  std::mutex mutex_;
  std::set<std::byte*> blocks_;
  std::byte* table_;
};

class HeapArena : public Arena {
 public:
  HeapArena(int rank, int size, std::shared_ptr<ArenaHub> hub)
      : Arena(rank, size, hub->table()), hub_(std::move(hub)) {
    introduce();
  }

  std::byte* allocate(std::size_t bytes) override { return hub_->allocate(bytes); }
  void free(std::byte* memory) override { hub_->free(memory); }
  SharedRef locate(const void* memory, std::size_t) const override {
    return {SharedRef::Kind::pointer, reinterpret_cast<std::uint64_t>(memory)};
  }
  std::byte* resolve(SharedRef ref) const override {
    return reinterpret_cast<std::byte*>(ref.value);
  }

 private:
  std::shared_ptr<ArenaHub> hub_;
};

}  // namespace

std::vector<std::shared_ptr<Arena>> make_arenas(int size) {
  auto hub = std::make_shared<ArenaHub>(size);
  std::vector<std::shared_ptr<Arena>> arenas;
  for (int rank = 0; rank < size; ++rank)
    arenas.push_back(std::make_shared<HeapArena>(rank, size, hub));
  return arenas;
}

}  // namespace cohort::transport::inproc

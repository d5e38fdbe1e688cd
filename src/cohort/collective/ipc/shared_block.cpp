#include "cohort/collective/ipc/shared_block.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <random>

#include "cohort/base/error.h"

namespace cohort::collective::ipc {

namespace {

constexpr std::size_t kLine = 64;
constexpr int kWordSets = 3;

std::size_t in_lines(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// The blocks of this process, so that its ranks share one mapping: what ThreadSanitizer can follow,
// and what is registered with the driver once.
struct OpenBlocks {
  std::mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<SharedBlock>> by_key;
};
OpenBlocks& open_blocks() {
  static OpenBlocks& blocks = *new OpenBlocks;  // outlives groups that end with the process
  return blocks;
}

std::byte* map_file(int file, std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) throw SystemError("map the words of a group on GPUs", errno);
  return static_cast<std::byte*>(memory);
}

}  // namespace

struct SharedBlock::Header {
  std::uint64_t key;
  FailureRecord failure;
};

SharedBlock::SharedBlock(UniqueFd file, std::byte* memory, std::size_t bytes, int size)
    : file_(std::move(file)), memory_(memory), bytes_(bytes), size_(size) {}

SharedBlock::~SharedBlock() {
  if (registered_by_ != nullptr) {
    // The thread that drops the last reference may have no device.
    const CudaDriver::UseContext use(*registered_by_, registered_in_);
    registered_by_->unregister_host(memory_);
  }
  ::munmap(memory_, bytes_);
}

std::size_t SharedBlock::rank_bytes(int size) {
  const auto n = static_cast<std::size_t>(size);
  return in_lines(sizeof(RankState)) + in_lines(kWordSets * n * sizeof(std::uint32_t)) +
         in_lines(kLoggedCalls * (3 + 2 * n) * sizeof(std::uint64_t));
}

std::size_t SharedBlock::total_bytes(int size) {
  const std::size_t bytes =
      in_lines(sizeof(Header)) + static_cast<std::size_t>(size) * rank_bytes(size);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

std::size_t SharedBlock::rank_offset(int rank) const {
  return in_lines(sizeof(Header)) + static_cast<std::size_t>(rank) * rank_bytes(size_);
}

std::shared_ptr<SharedBlock> SharedBlock::create(int size) {
  UniqueFd file(::memfd_create("cohort-gpu-words", MFD_CLOEXEC));
  if (!file) throw SystemError("create the words of a group on GPUs", errno);
  const std::size_t bytes = total_bytes(size);
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    throw SystemError("create the words of a group on GPUs", errno);
  std::byte* memory = map_file(file.get(), bytes);
  auto block = std::make_shared<SharedBlock>(std::move(file), memory, bytes, size);
  std::random_device random;
  block->header().key = (std::uint64_t{random()} << 32) | random();
  for (int rank = 0; rank < size; ++rank)
    for (int peer = 0; peer < size; ++peer) block->word(rank, WordSet::done, peer) = kSignal;
  OpenBlocks& blocks = open_blocks();
  const std::lock_guard lock(blocks.mutex);
  std::erase_if(blocks.by_key, [](const auto& entry) { return entry.second.expired(); });
  blocks.by_key[block->header().key] = block;
  return block;
}

std::shared_ptr<SharedBlock> SharedBlock::open(const Name& name, int size) {
  if (name.pid == ::getpid()) {
    OpenBlocks& blocks = open_blocks();
    const std::lock_guard lock(blocks.mutex);
    const auto found = blocks.by_key.find(name.key);
    if (found != blocks.by_key.end())
      if (auto block = found->second.lock()) return block;
    throw Error("the words of the group on GPUs are gone");
  }
  // Two ranks of another process may open it twice over; that costs a mapping, no more.
  const std::string path = fmt::format("/proc/{}/fd/{}", name.pid, name.fd);
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) throw SystemError(fmt::format("open {}, the words of a group on GPUs", path), errno);
  const std::size_t bytes = total_bytes(size);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || static_cast<std::size_t>(status.st_size) != bytes)
    throw Error(fmt::format("{} is not the memory that its rank has named", path));
  std::byte* memory = map_file(file.get(), bytes);
  auto block = std::make_shared<SharedBlock>(std::move(file), memory, bytes, size);
  if (block->header().key != name.key)
    throw Error(fmt::format("{} is not the memory that its rank has named", path));
  OpenBlocks& blocks = open_blocks();
  const std::lock_guard lock(blocks.mutex);
  auto& known = blocks.by_key[name.key];
  if (auto other = known.lock()) return other;
  known = block;
  return block;
}

SharedBlock::Header& SharedBlock::header() const { return *reinterpret_cast<Header*>(memory_); }

SharedBlock::Name SharedBlock::name() const { return {::getpid(), file_.get(), header().key}; }

FailureRecord& SharedBlock::failure() const { return header().failure; }

SharedBlock::RankState& SharedBlock::state(int rank) const {
  return *reinterpret_cast<RankState*>(memory_ + rank_offset(rank));
}

std::size_t SharedBlock::offset_of_word(int rank, WordSet set, int peer) const {
  return rank_offset(rank) + in_lines(sizeof(RankState)) +
         (static_cast<std::size_t>(set) * static_cast<std::size_t>(size_) +
          static_cast<std::size_t>(peer)) *
             sizeof(std::uint32_t);
}

std::atomic<std::uint32_t>& SharedBlock::word(int rank, WordSet set, int peer) const {
  return *reinterpret_cast<std::atomic<std::uint32_t>*>(memory_ + offset_of_word(rank, set, peer));
}

std::atomic<std::uint64_t>* SharedBlock::log_entry(int rank, std::uint64_t call) const {
  const auto n = static_cast<std::size_t>(size_);
  std::byte* log = memory_ + rank_offset(rank) + in_lines(sizeof(RankState)) +
                   in_lines(kWordSets * n * sizeof(std::uint32_t));
  return reinterpret_cast<std::atomic<std::uint64_t>*>(log) + call % kLoggedCalls * (3 + 2 * n);
}

CudaDriver::Address SharedBlock::address_for(const CudaDriver& driver) {
  OpenBlocks& blocks = open_blocks();
  const std::lock_guard lock(blocks.mutex);
  if (registered_by_ == nullptr) {
    driver.register_host(memory_, bytes_);
    registered_by_ = &driver;
    registered_in_ = driver.current_context();
  }
  return driver.address_of_host(memory_);
}

}  // namespace cohort::collective::ipc

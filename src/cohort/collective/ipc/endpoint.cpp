#include "cohort/collective/ipc/endpoint.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <iterator>
#include <system_error>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"

namespace cohort::collective::ipc {

namespace {

constexpr std::size_t kCacheLine = 64;
// The driver gives out small allocations as parts of such a block, and shares whole blocks.
constexpr std::size_t kAllocationBytes = std::size_t{2} << 20;
constexpr int kSlots = 2;

struct Retired {
  std::mutex mutex;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
};
Retired& retired() {
  static Retired& all = *new Retired;  // never destroyed: the driver may be gone by then
  return all;
}

}  // namespace

Endpoint::Endpoint(const CudaDriver& driver, int rank, int size, std::size_t slot_bytes)
    : driver_(driver),
      context_(driver.current_context()),
      rank_(rank),
      size_(size),
      slot_bytes_(slot_bytes),
      peers_(static_cast<std::size_t>(size)) {
  scratch_bytes_ = std::max(lane_bytes(), small_bytes());
  // A tree over n ranks holds at most this many results at a time.
  const auto levels = static_cast<std::size_t>(
      std::max(1, static_cast<int>(std::bit_width(static_cast<unsigned>(size - 1)))));
  const std::size_t bytes = kSlots * slot_bytes_ + levels * scratch_bytes_;
  try {
    staging_ =
        driver.allocate((bytes + kAllocationBytes - 1) / kAllocationBytes * kAllocationBytes);
    last_call_ = driver.make_event();
    last_captured_ = driver.make_event();
  } catch (...) {
    if (staging_ != 0) driver.free(staging_);
    if (last_call_ != nullptr) driver.destroy(last_call_);
    throw;
  }
  peer(rank).staging = staging_;
}

Endpoint::~Endpoint() {
  if (replays_.joinable()) replays_.join();
  const CudaDriver::UseContext use(driver_, context_);
  close_peers();
  driver_.destroy(last_call_);
  driver_.destroy(last_captured_);
  driver_.free(staging_);
  // Not earlier: what still waits on a stream would keep free() waiting.
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (ending_.joinable()) ending_.join();
  block_.reset();
}

std::size_t Endpoint::lane_bytes() const {
  return slot_bytes_ / static_cast<std::size_t>(size_) / kCacheLine * kCacheLine;
}

void Endpoint::set_block(std::shared_ptr<SharedBlock> block) {
  block_ = std::move(block);
  block_address_ = block_->address_for(driver_);
}

void Endpoint::close_peers() noexcept {
  for (Peer& peer : peers_)
    if (std::exchange(peer.opened, false)) driver_.close(peer.staging);
}

CudaDriver::Address Endpoint::slot(int rank, int index) const {
  return peers_[static_cast<std::size_t>(rank)].staging +
         static_cast<std::size_t>(index) * slot_bytes_;
}

CudaDriver::Address Endpoint::scratch(int level) const {
  return staging_ + kSlots * slot_bytes_ + static_cast<std::size_t>(level) * scratch_bytes_;
}

CudaDriver::Address Endpoint::word(int rank, WordSet set, int peer) const {
  return block_address_ + block_->offset_of_word(rank, set, peer);
}

void Endpoint::enter(DeviceStream stream) {
  // An event of a capture means nothing outside it, and the other way round: a graph and what is
  // called beside it are put in order by the program.
  const std::uint64_t capture = driver_.capture_of(stream);
  if (capture != 0 && capture == last_capture_) driver_.wait_for(last_captured_, stream);
  if (capture == 0 && called_) driver_.wait_for(last_call_, stream);
}

void Endpoint::leave(DeviceStream stream) {
  const std::uint64_t capture = driver_.capture_of(stream);
  driver_.record(capture == 0 ? last_call_ : last_captured_, stream);
  if (capture == 0) called_ = true;
  if (capture != 0) last_capture_ = capture;
}

void Endpoint::end_replays() noexcept {
  if (last_capture_ == 0 || replays_.joinable()) return;
  try {
    replays_ = std::thread([this] {
      const CudaDriver::UseContext use(driver_, context_);
      replays_over_ = driver_.synchronize();
      if (!replays_over_)
        log::write(
            log::Level::error,
            "memory of a GPU is kept: a group was destroyed while a CUDA graph was recorded");
    });
  } catch (const std::system_error& error) {
    log::write(log::Level::error,
               fmt::format("memory of a GPU is kept: no thread to wait for the end of its use: {}",
                           error.what()));
  }
}

bool Endpoint::is_idle() const noexcept {
  if (last_capture_ != 0 && !replays_over_) return false;
  const CudaDriver::UseContext use(driver_, context_);
  return !called_ || driver_.reached(last_call_);
}

bool Endpoint::await_idle(Deadline deadline) const {
  while (!is_idle()) {
    if (deadline.expired()) return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

void Endpoint::end_waits() noexcept {
  const std::lock_guard lock(mutex_);
  if (ending_.joinable() || stop_) return;
  set_words_ended();
  try {
    ending_ = std::thread([this] { keep_words_ended(); });
  } catch (const std::system_error& error) {
    log::write(log::Level::error, fmt::format("calls on a GPU may wait for ever for a peer that is "
                                              "gone: no thread to end them: {}",
                                              error.what()));
  }
}

void Endpoint::set_words_ended() {
  for (const WordSet set : {WordSet::even, WordSet::odd, WordSet::done})
    for (int peer = 0; peer < size_; ++peer)
      if (auto& word = block_->word(rank_, set, peer); word != SharedBlock::kEnded)
        word = SharedBlock::kEnded;
}

// Streams that go on write 0 behind each wait, and so would stop at their next: until the end of the
// endpoint the words are set again and again.
void Endpoint::keep_words_ended() {
  const auto began = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!stop_) {
    set_words_ended();
    const bool early = std::chrono::steady_clock::now() - began < std::chrono::seconds(1);
    wake_.wait_for(lock, std::chrono::microseconds(early ? 20 : 500));
  }
}

bool Endpoint::is_dead(int peer) const {
  const UniqueFd& process = peers_[static_cast<std::size_t>(peer)].process;
  pollfd entry{process.get(), POLLIN, 0};
  return process.valid() && ::poll(&entry, 1, 0) == 1;
}

bool Endpoint::release() noexcept {
  if (!closed_) {
    if (!is_idle()) return false;
    if (replays_.joinable()) replays_.join();  // it has ended; the rest of this may never be freed
    const CudaDriver::UseContext use(driver_, context_);
    close_peers();
    block_->state(rank_).closed = 1;
    closed_ = true;
  }
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_ && block_->state(peer).closed == 0 && !is_dead(peer)) return false;
  return true;
}

void Endpoint::retire(std::unique_ptr<Endpoint> endpoint) noexcept {
  const CudaDriver::UseContext use(endpoint->driver_, endpoint->context_);
  {
    Retired& all = retired();
    const std::lock_guard lock(all.mutex);
    all.endpoints.push_back(std::move(endpoint));
  }
  release_retired();
}

void Endpoint::release_retired() noexcept {
  CudaDriver::Context current = nullptr;
  try {
    if (const CudaDriver* driver = CudaDriver::find()) current = driver->current_context();
  } catch (const Error& error) {  // at the end of the process the driver goes before this
    log::debug("memory of GPUs is left to the driver: {}", error.message());
    return;
  }
  Retired& all = retired();
  std::vector<std::unique_ptr<Endpoint>> own;
  {
    const std::lock_guard lock(all.mutex);
    const auto others =
        std::stable_partition(all.endpoints.begin(), all.endpoints.end(),
                              [&](const auto& endpoint) { return endpoint->context_ != current; });
    std::move(others, all.endpoints.end(), std::back_inserter(own));
    all.endpoints.erase(others, all.endpoints.end());
  }
  // Without the lock, as the driver may wait for work of this device.
  std::erase_if(own, [](const auto& endpoint) { return endpoint->release(); });
  const std::lock_guard lock(all.mutex);
  std::move(own.begin(), own.end(), std::back_inserter(all.endpoints));
}

}  // namespace cohort::collective::ipc

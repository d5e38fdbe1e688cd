#include "cohort/collective/native/local_messenger.h"

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/collective/reduction/kernels.h"

namespace cohort::collective {

using transport::SharedRef;
using transport::Transfer;

namespace {

constexpr std::size_t kChunkBytes = transport::kEagerBytes;
constexpr std::uint64_t kSlots = 2;

}  // namespace

// One direction of one pair. Chunk c (from 1) is in slot c % kSlots.
struct alignas(64) LocalMessenger::Mailbox {
  std::atomic<std::uint64_t> sent;               // chunks written, by the sender
  alignas(64) std::atomic<std::uint64_t> taken;  // chunks read, by the receiver
  struct {
    SharedRef data;
    std::uint64_t bytes;
    std::uint64_t message_bytes;
  } slots[kSlots];
};

struct LocalMessenger::Pending {
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
  bool direct = false;      // a send whose memory the receiver reads
  bool posted = false;      // a direct send: the chunk is out
  std::uint64_t chunk = 0;  // a direct send: its number
  std::size_t moved = 0;
  std::atomic<std::size_t> done = 0;
  std::atomic<bool> finished = false;
};

class LocalMessenger::LocalTransfer : public Transfer {
 public:
  LocalTransfer(LocalMessenger& messenger, int peer, bool is_send, std::shared_ptr<Pending> pending)
      : messenger_(messenger), peer_(peer), is_send_(is_send), pending_(std::move(pending)) {}

  ~LocalTransfer() override {
    if (pending_->finished.load()) return;
    std::lock_guard lock(messenger_.mutex_);
    Queue& queue = (is_send_ ? messenger_.sends_ : messenger_.receives_)[peer_];
    if (std::erase(queue, pending_) > 0 && !messenger_.channel_.broken())
      messenger_.abort({static_cast<std::uint32_t>(FailureKind::aborted),
                        messenger_.channel_.peer(messenger_.channel_.index()).rank,
                        fmt::format("{} gave up a message half-way",
                                    messenger_.channel_.peer(messenger_.channel_.index()).name())});
  }

  std::size_t done() const override { return pending_->done.load(); }

  void wait(std::size_t bytes, Deadline deadline) override {
    const auto ready = [&] {
      messenger_.progress();
      return bytes < pending_->bytes ? done() >= bytes : pending_->finished.load();
    };
    messenger_.channel_.wait(
        ready, [&] { return peer_; }, deadline,
        fmt::format("{} {} ({} bytes)", is_send_ ? "send to" : "recv from",
                    messenger_.channel_.peer(peer_).name(), pending_->bytes));
  }

 private:
  LocalMessenger& messenger_;
  int peer_;
  bool is_send_;
  std::shared_ptr<Pending> pending_;
};

std::size_t LocalMessenger::shared_bytes(int members) {
  return sizeof(Mailbox) * static_cast<std::size_t>(members) * static_cast<std::size_t>(members);
}

LocalMessenger::LocalMessenger(LocalChannel& channel)
    : channel_(channel),
      sends_(static_cast<std::size_t>(channel.size())),
      receives_(static_cast<std::size_t>(channel.size())),
      chunk_buffers_(static_cast<std::size_t>(channel.size()), nullptr) {}

LocalMessenger::~LocalMessenger() {
  for (std::byte* buffer : chunk_buffers_)
    if (buffer != nullptr) channel_.domain().retire(buffer);
}

LocalMessenger::Mailbox& LocalMessenger::mailbox(int from, int to) const {
  return reinterpret_cast<Mailbox*>(channel_.extra())[from * channel_.size() + to];
}

std::unique_ptr<Transfer> LocalMessenger::send(int peer, transport::Lane,
                                               std::span<const std::byte> bytes) {
  auto pending = std::make_shared<Pending>();
  pending->memory = const_cast<std::byte*>(bytes.data());  // only read
  pending->bytes = bytes.size();
  pending->direct = bytes.size() > kChunkBytes &&
                    channel_.domain().arena().locate(bytes.data(), bytes.size()).reachable();
  return post(sends_, peer, std::move(pending));
}

std::unique_ptr<Transfer> LocalMessenger::receive(int peer, transport::Lane,
                                                  std::span<std::byte> bytes) {
  auto pending = std::make_shared<Pending>();
  pending->memory = bytes.data();
  pending->bytes = bytes.size();
  return post(receives_, peer, std::move(pending));
}

std::unique_ptr<Transfer> LocalMessenger::post(std::vector<Queue>& queues, int peer,
                                               std::shared_ptr<Pending> pending) {
  channel_.check([&] { return describe(&queues == &sends_, peer, pending->bytes); });
  {
    std::lock_guard lock(mutex_);
    queues[peer].push_back(pending);
  }
  progress();
  return std::make_unique<LocalTransfer>(*this, peer, &queues == &sends_, std::move(pending));
}

std::string LocalMessenger::describe(bool is_send, int peer, std::size_t bytes) const {
  return fmt::format("{} {} ({} bytes)", is_send ? "send to" : "recv from",
                     channel_.peer(peer).name(), bytes);
}

void LocalMessenger::abort(const transport::AbortNotice& notice) noexcept {
  channel_.fail({static_cast<FailureKind>(notice.kind), notice.culprit, notice.text, {}});
}

std::optional<transport::AbortNotice> LocalMessenger::aborted() const {
  const auto failure = channel_.failure();
  if (!failure) return std::nullopt;
  return transport::AbortNotice{static_cast<std::uint32_t>(failure->kind), failure->culprit,
                                failure->text};
}

void LocalMessenger::progress() {
  std::lock_guard lock(mutex_);
  for (int peer = 0; peer < channel_.size(); ++peer) {
    for (Queue* queue : {&sends_[peer], &receives_[peer]}) {
      while (!queue->empty()) {
        Pending& head = *queue->front();
        const bool moved =
            queue == &sends_[peer] ? send_chunk(peer, head) : receive_chunk(peer, head);
        if (head.finished.load()) queue->pop_front();
        if (!moved) break;
      }
    }
  }
}

bool LocalMessenger::send_chunk(int peer, Pending& pending) {
  Mailbox& box = mailbox(channel_.index(), peer);
  if (pending.posted) {  // direct, waiting for its reader
    if (box.taken.load() < pending.chunk) return false;
    pending.done.store(pending.bytes);
    pending.finished.store(true);
    return true;
  }
  const std::uint64_t chunk = box.sent.load() + 1;
  if (chunk > kSlots && box.taken.load() < chunk - kSlots) return false;
  auto& slot = box.slots[chunk % kSlots];
  slot.message_bytes = pending.bytes;
  if (pending.direct) {
    slot.bytes = pending.bytes;
    slot.data = channel_.domain().arena().locate(pending.memory, pending.bytes);
    pending.posted = true;
    pending.chunk = chunk;
  } else {
    transport::Arena& arena = channel_.domain().arena();
    std::byte*& buffers = chunk_buffers_[peer];
    if (buffers == nullptr) buffers = arena.allocate(kSlots * kChunkBytes);
    std::byte* buffer = buffers + chunk % kSlots * kChunkBytes;
    slot.bytes = std::min(kChunkBytes, pending.bytes - pending.moved);
    if (slot.bytes > 0) copy_bytes(buffer, pending.memory + pending.moved, slot.bytes);
    slot.data = arena.locate(buffer, kChunkBytes);
    pending.moved += slot.bytes;
    pending.done.store(pending.moved);
    if (pending.moved == pending.bytes) pending.finished.store(true);
  }
  box.sent.store(chunk);
  channel_.domain().notify(peer);
  return true;
}

bool LocalMessenger::receive_chunk(int peer, Pending& pending) {
  Mailbox& box = mailbox(peer, channel_.index());
  const std::uint64_t chunk = box.taken.load() + 1;
  if (box.sent.load() < chunk) return false;
  const auto& slot = box.slots[chunk % kSlots];
  if (slot.message_bytes != pending.bytes) {
    channel_.fail({FailureKind::mismatch, channel_.peer(peer).rank,
                   fmt::format("the ranks' calls differ: {} sent {} bytes where {} expects {}",
                               channel_.peer(peer).name(), slot.message_bytes,
                               channel_.peer(channel_.index()).name(), pending.bytes),
                   fmt::format("recv from {}", channel_.peer(peer).name())});
    return false;
  }
  if (slot.bytes > 0)
    copy_bytes(pending.memory + pending.moved, channel_.domain().arena().resolve(slot.data),
               slot.bytes);
  pending.moved += slot.bytes;
  pending.done.store(pending.moved);
  if (pending.moved == pending.bytes) pending.finished.store(true);
  box.taken.store(chunk);
  channel_.domain().notify(peer);
  return true;
}

}  // namespace cohort::collective

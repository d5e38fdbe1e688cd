#include "cohort/transport/inproc/messenger.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/process/wait_interrupt.h"

namespace cohort::transport::inproc {

namespace {

struct Pending {
  std::byte* memory = nullptr;  // of a receive, or of a send (then only read)
  std::size_t bytes = 0;
  bool finished = false;
  std::vector<std::byte> copy;  // of a small send, which does not wait for its receive
};
using PendingPointer = std::shared_ptr<Pending>;

// Why a rank's messenger no longer works.
struct Broken {
  std::string text;
  std::optional<AbortNotice> notice;
  bool protocol = false;

  [[noreturn]] void raise() const {
    if (protocol) throw ProtocolError(text);
    throw PeerError(text);
  }
};

// One mutex for all: this messenger exists to be obviously right.
struct Hub {
  explicit Hub(int size)
      : broken(static_cast<std::size_t>(size)), left(static_cast<std::size_t>(size), false) {}

  std::mutex mutex;
  std::condition_variable changed;
  struct Stream {
    std::deque<PendingPointer> sends, receives;
  };
  std::map<std::tuple<int, int, Lane>, Stream> streams;  // (from, to, lane)
  std::vector<std::optional<Broken>> broken;             // by rank
  std::vector<bool> left;                                // by rank

  void break_all(const Broken& why) {
    for (auto& entry : broken)
      if (!entry) entry = why;
    changed.notify_all();
  }

  void match(int from, int to, Stream& stream) {
    while (!stream.sends.empty() && !stream.receives.empty()) {
      Pending& send = *stream.sends.front();
      Pending& receive = *stream.receives.front();
      if (send.bytes != receive.bytes) {
        break_all({fmt::format("rank {} sent {} bytes where rank {} expects {}", from, send.bytes,
                               to, receive.bytes),
                   std::nullopt, true});
        return;
      }
      if (send.bytes > 0) std::memcpy(receive.memory, send.memory, send.bytes);
      send.finished = receive.finished = true;
      stream.sends.pop_front();
      stream.receives.pop_front();
      changed.notify_all();
    }
  }
};

class InprocTransfer : public Transfer {
 public:
  InprocTransfer(std::shared_ptr<Hub> hub, int rank, int peer, PendingPointer pending)
      : hub_(std::move(hub)), rank_(rank), peer_(peer), pending_(std::move(pending)) {}

  ~InprocTransfer() override {
    std::lock_guard lock(hub_->mutex);
    if (pending_->finished) return;
    if (!hub_->broken[rank_])
      hub_->break_all(
          {fmt::format("rank {} dropped a transfer with rank {}", rank_, peer_), {}, false});
    for (auto& [key, stream] : hub_->streams) {
      std::erase(stream.sends, pending_);
      std::erase(stream.receives, pending_);
    }
  }

  std::size_t done() const override {
    std::lock_guard lock(hub_->mutex);
    return pending_->finished ? pending_->bytes : 0;
  }

  void wait(std::size_t bytes, Deadline deadline) override {
    if (bytes == 0) return;
    std::unique_lock lock(hub_->mutex);
    const auto ready = [&] {
      return pending_->finished || hub_->broken[rank_].has_value() || hub_->left[peer_];
    };
    try {
      if (!wait_interruptibly(hub_->changed, lock, ready, deadline)) {
        const std::string text = fmt::format("rank {} did not take part in time", peer_);
        hub_->broken[rank_] = Broken{text, {}, false};
        throw TimeoutError(text);
      }
    } catch (const Interrupted&) {
      lock.lock();
      hub_->break_all({fmt::format("rank {} was interrupted", rank_), {}, false});
      throw;
    }
    if (pending_->finished) return;
    if (!hub_->broken[rank_])
      hub_->broken[rank_] = Broken{fmt::format("rank {} left the group", peer_), {}, false};
    hub_->broken[rank_]->raise();
  }

 private:
  std::shared_ptr<Hub> hub_;
  int rank_;
  int peer_;
  PendingPointer pending_;
};

class InprocMessenger : public Messenger {
 public:
  InprocMessenger(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  ~InprocMessenger() override {
    std::lock_guard lock(hub_->mutex);
    hub_->left[rank_] = true;
    hub_->changed.notify_all();
  }

  std::unique_ptr<Transfer> send(int peer, Lane lane, std::span<const std::byte> bytes) override {
    return post(rank_, peer, peer, lane, const_cast<std::byte*>(bytes.data()), bytes.size());
  }
  std::unique_ptr<Transfer> receive(int peer, Lane lane, std::span<std::byte> bytes) override {
    return post(peer, rank_, peer, lane, bytes.data(), bytes.size());
  }
  void abort(const AbortNotice& notice) noexcept override {
    std::lock_guard lock(hub_->mutex);
    if (std::exchange(told_, true)) return;
    hub_->break_all({notice.text, notice, false});
  }
  std::optional<AbortNotice> aborted() const override {
    std::lock_guard lock(hub_->mutex);
    return hub_->broken[rank_] ? hub_->broken[rank_]->notice : std::nullopt;
  }

 private:
  std::unique_ptr<Transfer> post(int from, int to, int peer, Lane lane, std::byte* memory,
                                 std::size_t bytes) {
    auto pending = std::make_shared<Pending>(Pending{memory, bytes, false, {}});
    std::lock_guard lock(hub_->mutex);
    if (hub_->broken[rank_]) hub_->broken[rank_]->raise();
    if (from == rank_ && bytes <= kEagerBytes) {
      pending->copy.assign(memory, memory + bytes);
      pending->memory = pending->copy.data();
      pending->finished = true;
    }
    Hub::Stream& stream = hub_->streams[{from, to, lane}];
    (from == rank_ ? stream.sends : stream.receives).push_back(pending);
    hub_->match(from, to, stream);
    return std::make_unique<InprocTransfer>(hub_, rank_, peer, std::move(pending));
  }

  std::shared_ptr<Hub> hub_;
  int rank_;
  bool told_ = false;  // the peers, why; under the hub's mutex
};

}  // namespace

std::vector<std::unique_ptr<Messenger>> make_messengers(int size) {
  auto hub = std::make_shared<Hub>(size);
  std::vector<std::unique_ptr<Messenger>> messengers;
  for (int rank = 0; rank < size; ++rank)
    messengers.push_back(std::make_unique<InprocMessenger>(hub, rank));
  return messengers;
}

}  // namespace cohort::transport::inproc

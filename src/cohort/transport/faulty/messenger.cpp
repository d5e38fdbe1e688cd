#include "cohort/transport/faulty/messenger.h"

#include <condition_variable>
#include <mutex>
#include <vector>

#include "cohort/base/error.h"

namespace cohort::transport::faulty {

namespace {

// What a messenger and its transfers share: a place to wait that an abort ends.
struct Shared {
  std::mutex mutex;
  std::condition_variable changed;
  bool aborted = false;
  bool cut = false;

  // Until `when` or an abort.
  void pause_until(Deadline::Clock::time_point when) {
    std::unique_lock lock(mutex);
    const auto ready = [&] { return aborted; };
    if (when == Deadline::Clock::time_point::max())
      changed.wait(lock, ready);
    else
      changed.wait_until(lock, when, ready);
  }
};

class DelayedTransfer : public Transfer {
 public:
  DelayedTransfer(std::shared_ptr<Shared> shared, std::unique_ptr<Transfer> inner,
                  std::vector<std::byte> copy, std::chrono::milliseconds delay)
      : shared_(std::move(shared)),
        copy_(std::move(copy)),
        inner_(std::move(inner)),
        ready_(Deadline::Clock::now() + delay) {}

  std::size_t done() const override { return Deadline::Clock::now() < ready_ ? 0 : inner_->done(); }
  void wait(std::size_t bytes, Deadline deadline) override {
    shared_->pause_until(std::min(ready_, deadline.when()));
    inner_->wait(bytes, deadline);
  }

 private:
  std::shared_ptr<Shared> shared_;
  std::vector<std::byte> copy_;  // of a message that was changed; outlives inner_
  std::unique_ptr<Transfer> inner_;
  Deadline::Clock::time_point ready_;
};

class DroppedTransfer : public Transfer {
 public:
  explicit DroppedTransfer(std::size_t bytes) : bytes_(bytes) {}
  std::size_t done() const override { return bytes_; }
  void wait(std::size_t, Deadline) override {}

 private:
  std::size_t bytes_;
};

class CutTransfer : public Transfer {
 public:
  CutTransfer(std::shared_ptr<Shared> shared, int peer) : shared_(std::move(shared)), peer_(peer) {}
  std::size_t done() const override { return 0; }
  void wait(std::size_t, Deadline deadline) override {
    shared_->pause_until(deadline.when());
    std::lock_guard lock(shared_->mutex);
    if (shared_->aborted)
      throw PeerError(fmt::format("the transfer with rank {} was called off", peer_));
    throw TimeoutError(fmt::format("rank {} did not answer in time", peer_));
  }

 private:
  std::shared_ptr<Shared> shared_;
  int peer_;
};

class FaultyMessenger : public Messenger {
 public:
  FaultyMessenger(std::unique_ptr<Messenger> inner, Faults faults)
      : faults_(faults), shared_(std::make_shared<Shared>()), inner_(std::move(inner)) {}

  std::unique_ptr<Transfer> send(int peer, Lane lane, std::span<const std::byte> bytes) override {
    const std::uint64_t number = count();
    if (is_cut()) return std::make_unique<CutTransfer>(shared_, peer);
    if (number == faults_.drop) return std::make_unique<DroppedTransfer>(bytes.size());
    std::vector<std::byte> copy;
    if (number == faults_.corrupt && !bytes.empty()) {
      copy.assign(bytes.begin(), bytes.end());
      copy[copy.size() / 2] ^= std::byte{1};
      bytes = copy;
    }
    auto transfer = inner_->send(peer, lane, bytes);
    return std::make_unique<DelayedTransfer>(shared_, std::move(transfer), std::move(copy),
                                             faults_.delay);
  }

  std::unique_ptr<Transfer> receive(int peer, Lane lane, std::span<std::byte> bytes) override {
    if (is_cut()) return std::make_unique<CutTransfer>(shared_, peer);
    return std::make_unique<DelayedTransfer>(shared_, inner_->receive(peer, lane, bytes),
                                             std::vector<std::byte>(), faults_.delay);
  }

  void abort(const AbortNotice& notice) noexcept override {
    {
      std::lock_guard lock(shared_->mutex);
      shared_->aborted = true;
      shared_->changed.notify_all();
    }
    if (!is_cut()) inner_->abort(notice);
  }
  std::optional<AbortNotice> aborted() const override { return inner_->aborted(); }

 private:
  std::uint64_t count() {
    std::lock_guard lock(shared_->mutex);
    if (sent_ >= faults_.cut) shared_->cut = true;
    return sent_++;
  }
  bool is_cut() const {
    std::lock_guard lock(shared_->mutex);
    return shared_->cut;
  }

  Faults faults_;
  std::shared_ptr<Shared> shared_;
  std::unique_ptr<Messenger> inner_;
  std::uint64_t sent_ = 0;  // guarded by shared_->mutex
};

}  // namespace

std::unique_ptr<Messenger> make_messenger(std::unique_ptr<Messenger> inner, Faults faults) {
  return std::make_unique<FaultyMessenger>(std::move(inner), faults);
}

}  // namespace cohort::transport::faulty

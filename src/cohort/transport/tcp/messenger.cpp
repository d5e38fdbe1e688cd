#include "cohort/transport/tcp/messenger.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "cohort/transport/tcp/engine.h"

namespace cohort::transport::tcp {

namespace {

class TcpTransfer : public Transfer {
 public:
  TcpTransfer(std::shared_ptr<Engine> engine, MessagePointer message)
      : engine_(std::move(engine)), message_(std::move(message)) {}
  ~TcpTransfer() override { engine_->drop(*message_); }

  std::size_t done() const override { return message_->done.load(std::memory_order_acquire); }
  void wait(std::size_t bytes, Deadline deadline) override {
    engine_->wait(*message_, bytes, deadline);
  }

 private:
  std::shared_ptr<Engine> engine_;
  MessagePointer message_;
};

// Calls beat() again and again, whatever this rank's other threads do.
class Beats {
 public:
  Beats(std::shared_ptr<Engine> engine, std::chrono::milliseconds period)
      : thread_([this, engine = std::move(engine), period] {
          std::unique_lock lock(mutex_);
          while (!changed_.wait_for(lock, period, [this] { return is_over_; })) engine->beat();
        }) {}
  ~Beats() {
    {
      std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;  // last: it uses the others
};

class TcpMessenger : public Messenger {
 public:
  TcpMessenger(std::shared_ptr<Engine> engine, std::chrono::milliseconds silence)
      : engine_(std::move(engine)) {
    constexpr int kBeats = 8;
    if (silence.count() > 0) beats_.emplace(engine_, std::max(silence / kBeats, kShortest));
  }
  ~TcpMessenger() override {
    beats_.reset();
    engine_->close();
  }

  std::unique_ptr<Transfer> send(int peer, Lane lane, std::span<const std::byte> bytes) override {
    return transfer(true, peer, lane, const_cast<std::byte*>(bytes.data()), bytes.size());
  }
  std::unique_ptr<Transfer> receive(int peer, Lane lane, std::span<std::byte> bytes) override {
    return transfer(false, peer, lane, bytes.data(), bytes.size());
  }
  void abort(const AbortNotice& notice) noexcept override { engine_->abort(notice); }
  std::optional<AbortNotice> aborted() const override { return engine_->aborted(); }

 private:
  std::unique_ptr<Transfer> transfer(bool is_send, int peer, Lane lane, std::byte* memory,
                                     std::size_t size) {
    return std::make_unique<TcpTransfer>(engine_, engine_->post(is_send, peer, lane, memory, size));
  }

  static constexpr std::chrono::milliseconds kShortest{10};
  std::shared_ptr<Engine> engine_;
  std::optional<Beats> beats_;
};

}  // namespace

std::unique_ptr<Messenger> make_messenger(TcpOptions options,
                                          std::shared_ptr<Rendezvous> rendezvous,
                                          Deadline deadline) {
  const auto silence = options.silence;
  return std::make_unique<TcpMessenger>(
      std::make_shared<Engine>(std::move(options), std::move(rendezvous), deadline), silence);
}

}  // namespace cohort::transport::tcp

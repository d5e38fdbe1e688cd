#include "cohort/transport/tcp/messenger.h"

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

class TcpMessenger : public Messenger {
 public:
  explicit TcpMessenger(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}
  ~TcpMessenger() override { engine_->close(); }

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

  std::shared_ptr<Engine> engine_;
};

}  // namespace

std::unique_ptr<Messenger> make_messenger(TcpOptions options,
                                          std::shared_ptr<Rendezvous> rendezvous,
                                          Deadline deadline) {
  return std::make_unique<TcpMessenger>(
      std::make_shared<Engine>(std::move(options), std::move(rendezvous), deadline));
}

}  // namespace cohort::transport::tcp

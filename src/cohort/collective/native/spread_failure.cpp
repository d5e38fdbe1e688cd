#include "cohort/collective/native/spread_failure.h"

namespace cohort::collective {

namespace {

using transport::Lane;
using transport::Messenger;
using transport::Transfer;

std::string describe_message(bool is_send, const Peer& peer, std::size_t bytes) {
  return fmt::format("{} {} ({} bytes)", is_send ? "send to" : "recv from", peer.name(), bytes);
}

class RemoteTransfer : public Transfer {
 public:
  RemoteTransfer(Board& board, Messenger& remote, std::string during,
                 std::unique_ptr<Transfer> transfer)
      : board_(board),
        remote_(remote),
        during_(std::move(during)),
        transfer_(std::move(transfer)) {}

  std::size_t done() const override { return transfer_->done(); }
  void wait(std::size_t bytes, Deadline deadline) override {
    or_spread_failure(
        board_, remote_, [&] { return during_; }, [&] { transfer_->wait(bytes, deadline); });
  }

 private:
  Board& board_;
  Messenger& remote_;
  std::string during_;
  std::unique_ptr<Transfer> transfer_;
};

template <typename Post>
std::unique_ptr<Transfer> post_remotely(Board& board, Messenger& remote, std::string during,
                                        Post&& post) {
  board.check([&] { return during; });
  auto transfer = or_spread_failure(
      board, remote, [&] { return during; }, std::forward<Post>(post));
  return std::make_unique<RemoteTransfer>(board, remote, std::move(during), std::move(transfer));
}

FailureKind kind_of(const Error& error) {
  if (dynamic_cast<const TimeoutError*>(&error) != nullptr) return FailureKind::timed_out;
  if (dynamic_cast<const ProtocolError*>(&error) != nullptr) return FailureKind::protocol;
  if (dynamic_cast<const AuthError*>(&error) != nullptr) return FailureKind::refused;
  return FailureKind::aborted;
}

}  // namespace

void spread_failure(Board& board, Messenger& remote, const Error& error,
                    const std::string& during) {
  Failure failure{kind_of(error), error.context().peer_rank, error.message(), during};
  if (const auto notice = remote.aborted();
      notice && dynamic_cast<const PeerError*>(&error) != nullptr)
    failure = {static_cast<FailureKind>(notice->kind), notice->culprit, notice->text, during};
  failure = board.fail(std::move(failure));
  failure.during = during;
  remote.abort({static_cast<std::uint32_t>(failure.kind), failure.culprit, failure.text});
  board.raise(failure);
}

std::unique_ptr<Transfer> send_remotely(Board& board, Messenger& remote, const Peer& peer,
                                        std::span<const std::byte> bytes) {
  return post_remotely(board, remote, describe_message(true, peer, bytes.size()),
                       [&] { return remote.send(peer.rank, Lane::point_to_point, bytes); });
}

std::unique_ptr<Transfer> receive_remotely(Board& board, Messenger& remote, const Peer& peer,
                                           std::span<std::byte> bytes) {
  return post_remotely(board, remote, describe_message(false, peer, bytes.size()),
                       [&] { return remote.receive(peer.rank, Lane::point_to_point, bytes); });
}

}  // namespace cohort::collective

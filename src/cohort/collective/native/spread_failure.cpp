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
  RemoteTransfer(LocalChannel& channel, Messenger& remote, std::string during,
                 std::unique_ptr<Transfer> transfer)
      : channel_(channel),
        remote_(remote),
        during_(std::move(during)),
        transfer_(std::move(transfer)) {}

  std::size_t done() const override { return transfer_->done(); }
  void wait(std::size_t bytes, Deadline deadline) override {
    or_spread_failure(
        channel_, remote_, [&] { return during_; }, [&] { transfer_->wait(bytes, deadline); });
  }

 private:
  LocalChannel& channel_;
  Messenger& remote_;
  std::string during_;
  std::unique_ptr<Transfer> transfer_;
};

template <typename Post>
std::unique_ptr<Transfer> post_remotely(LocalChannel& channel, Messenger& remote,
                                        std::string during, Post&& post) {
  channel.check([&] { return during; });
  auto transfer = or_spread_failure(
      channel, remote, [&] { return during; }, std::forward<Post>(post));
  return std::make_unique<RemoteTransfer>(channel, remote, std::move(during), std::move(transfer));
}

FailureKind kind_of(const Error& error) {
  if (dynamic_cast<const TimeoutError*>(&error) != nullptr) return FailureKind::timed_out;
  if (dynamic_cast<const ProtocolError*>(&error) != nullptr) return FailureKind::protocol;
  if (dynamic_cast<const AuthError*>(&error) != nullptr) return FailureKind::refused;
  return FailureKind::aborted;
}

}  // namespace

void spread_failure(LocalChannel& channel, Messenger& remote, const Error& error,
                    const std::string& during) {
  Failure failure{kind_of(error), error.context().peer_rank, error.message(), during};
  if (const auto notice = remote.aborted();
      notice && dynamic_cast<const PeerError*>(&error) != nullptr)
    failure = {static_cast<FailureKind>(notice->kind), notice->culprit, notice->text, during};
  failure = channel.fail(std::move(failure));
  failure.during = during;
  remote.abort({static_cast<std::uint32_t>(failure.kind), failure.culprit, failure.text});
  channel.raise(failure);
}

std::unique_ptr<Transfer> send_remotely(LocalChannel& channel, Messenger& remote, const Peer& peer,
                                        std::span<const std::byte> bytes) {
  return post_remotely(channel, remote, describe_message(true, peer, bytes.size()),
                       [&] { return remote.send(peer.rank, Lane::point_to_point, bytes); });
}

std::unique_ptr<Transfer> receive_remotely(LocalChannel& channel, Messenger& remote,
                                           const Peer& peer, std::span<std::byte> bytes) {
  return post_remotely(channel, remote, describe_message(false, peer, bytes.size()),
                       [&] { return remote.receive(peer.rank, Lane::point_to_point, bytes); });
}

}  // namespace cohort::collective

#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "cohort/collective/native/local_channel.h"
#include "cohort/transport/messenger.h"

namespace cohort::collective {

// Point-to-point messages between the members of one domain; peers are member indices, the lane
// does not matter. Each ordered pair has a mailbox in the extra memory of the channel, two slots
// for chunks: small messages and memory that the peer cannot reach are copied into a buffer of the
// sender's, large reachable messages are read where they lie.
//
// Transfers make progress while some thread waits on any of them.
// Threads: thread-safe. Ownership: the channel must outlive this and all its transfers.
class LocalMessenger : public transport::Messenger {
 public:
  static std::size_t shared_bytes(int members);

  explicit LocalMessenger(LocalChannel& channel);
  ~LocalMessenger() override;

  std::unique_ptr<transport::Transfer> send(int peer, transport::Lane lane,
                                            std::span<const std::byte> bytes) override;
  std::unique_ptr<transport::Transfer> receive(int peer, transport::Lane lane,
                                               std::span<std::byte> bytes) override;
  void abort(const transport::AbortNotice& notice) noexcept override;
  std::optional<transport::AbortNotice> aborted() const override;

 private:
  struct Mailbox;
  struct Pending;
  class LocalTransfer;
  using Queue = std::deque<std::shared_ptr<Pending>>;

  Mailbox& mailbox(int from, int to) const;
  std::string describe(bool is_send, int peer, std::size_t bytes) const;  // for errors
  void progress();  // moves what can be moved now
  bool send_chunk(int peer, Pending& pending);
  bool receive_chunk(int peer, Pending& pending);
  std::unique_ptr<transport::Transfer> post(std::vector<Queue>& queues, int peer,
                                            std::shared_ptr<Pending> pending);

  LocalChannel& channel_;
  std::mutex mutex_;                       // guards all below
  std::vector<Queue> sends_, receives_;    // by peer
  std::vector<std::byte*> chunk_buffers_;  // by peer, made when first used
};

}  // namespace cohort::collective

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "cohort/base/net/authenticated_channel.h"
#include "cohort/base/net/frame_codec.h"
#include "cohort/base/unique_fd.h"
#include "cohort/cluster/store/store_protocol.h"

namespace cohort::cluster {

// The server's end of one client: handshake, frames in, frames out. Never blocks; confined to the
// server's loop. Anything that ends the connection is an exception (PeerError, AuthError,
// ProtocolError) whose message is the reason; the owner then calls say_goodbye() or closes.
class StoreConnection {
 public:
  StoreConnection(UniqueFd fd, const HandshakeOptions& handshake, std::size_t max_queued_bytes);

  int fd() const { return channel_.fd(); }
  bool is_authenticated() const { return decoder_.has_value(); }
  const std::string& identity() const { return channel_.peer_identity(); }
  std::string name() const;  // for the log

  // Reads what is there, a bounded amount a call so that no client starves the others.
  void read();
  // The next whole request; nothing when there is none, or while answers pile up.
  std::optional<StoreRequest> next_request();

  // True when next_request() gave nothing though whole requests may have arrived, and would now.
  bool has_held_back_requests() const { return held_back_ && !is_paused() && !goodbye_; }

  // Queues an answer.
  void send(StoreResponse response);
  std::size_t queued_bytes() const { return queued_bytes_; }
  bool is_over_limit() const { return queued_bytes_ > max_queued_bytes_; }
  // Writes as much as the socket takes.
  void flush();

  // Forgets what is queued but not begun; the client's last message will be the reason. What it
  // still sends is thrown away: to close over unread bytes would take the message from it.
  void say_goodbye(const std::string& reason);
  void end_output() { channel_.channel().finish(); }  // once the goodbye is written
  bool is_saying_goodbye() const { return goodbye_; }
  bool has_output() const { return written_ < wire_.size() || !queue_.empty(); }

  // EPOLLIN, EPOLLOUT as they are needed now.
  std::uint32_t wanted_events() const;

 private:
  struct Queued {
    StoreResponse response;
    std::size_t size;
    bool is_event;
  };
  bool is_paused() const;  // enough unread answers: take no more requests

  AuthenticatedChannel channel_;
  std::string peer_;
  std::size_t max_queued_bytes_;
  std::optional<FrameDecoder> decoder_;
  std::optional<FrameEncoder> encoder_;

  std::deque<Queued> queue_;  // encoded one by one, so that a goodbye can replace the rest
  std::size_t queued_bytes_ = 0;
  std::size_t queued_answer_bytes_ = 0;  // without events, which are not asked for one by one
  std::string wire_;                     // encoded, being written
  std::size_t written_ = 0;
  bool held_back_ = false;
  bool goodbye_ = false;
};

}  // namespace cohort::cluster

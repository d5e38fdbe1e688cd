#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/transport/tcp/message.h"
#include "cohort/transport/tcp/stream.h"

namespace cohort::transport::tcp {

using MessagePointer = std::shared_ptr<Message>;

// All that passes between this rank and one peer on one lane: the messages posted, and the streams
// that carry them.
// Confined to one thread at a time. Failure: as Stream.
class Link {
 public:
  Link(int peer, Lane lane, std::string own_name, std::string peer_name);
  ~Link();

  int peer() const { return peer_; }
  Lane lane() const { return lane_; }
  const std::string& peer_name() const { return peer_name_; }
  void set_peer_name(std::string name) { peer_name_ = std::move(name); }

  bool wanted() const { return next_send_ + next_receive_ > 0; }  // something was posted

  MessagePointer post(bool is_send, std::byte* memory, std::size_t size);

  // A proven connection becomes stream `index` of `streams`; false, and it stays the caller's, when
  // there is one already.
  bool attach(int index, int streams, std::unique_ptr<Stream>& stream);
  bool is_open() const { return open_; }  // all its streams are there
  const std::vector<std::unique_ptr<Stream>>& streams() const { return streams_; }

  // Moves what can be moved now. True when something was.
  bool pump();

  // Tells the peer that this rank is there, on every stream that has nothing else to say.
  void beat();
  // When the stream that has been silent longest brought something; never, while it is not open, or
  // while a stream is held up by a message that is not wanted yet.
  Deadline::Clock::time_point heard_at() const;

  // What the peer said last; its sends are all in then.
  const std::optional<Goodbye>& goodbye() const { return goodbye_; }
  bool ended() const { return open_ && ended_ == streams_.size(); }

  // No memory of a message is touched from now on.
  void detach();

 private:
  class Sink;
  // A chunk that came before its receive was posted, from a peer that has gone since.
  struct EarlyChunk {
    int stream;
    ChunkHeader header;
    std::vector<std::byte> bytes;
    bool arrived = false;
  };

  std::optional<std::byte*> place(int stream, const ChunkHeader& header);
  void arrived(int stream, const ChunkHeader& header);
  MessagePointer find_receive(std::uint64_t number) const;
  void check(const Message& message, int stream, const ChunkHeader& header) const;
  void deliver(Message& message, int stream);
  void deliver_early(Message& message);
  bool start_next(int stream);
  void finish_chunk(int stream);

  int peer_;
  Lane lane_;
  std::string own_name_, peer_name_;
  std::vector<std::unique_ptr<Sink>> sinks_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<MessagePointer> sending_;  // by stream: whose chunk is on the way
  bool open_ = false;
  std::deque<MessagePointer> sends_, receives_;  // posted and not complete
  std::uint64_t next_send_ = 0, next_receive_ = 0;
  std::deque<EarlyChunk> early_;
  std::size_t early_bytes_ = 0;
  std::optional<Goodbye> goodbye_;
  std::size_t ended_ = 0;
};

}  // namespace cohort::transport::tcp

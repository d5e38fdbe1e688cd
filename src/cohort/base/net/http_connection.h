#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cohort/base/net/channel.h"
#include "cohort/base/net/http_message.h"

namespace cohort {

// What the connections of one server do with requests.
struct HttpHandlers {
  std::function<HttpResponse(HttpRequest request)> handle;
  std::function<HttpDecision(const HttpRequest& head)> on_head;  // may be empty
  std::string name;                                              // who logs
};

// The requests of one connection and their answers, one after the other, fed by an event loop;
// never blocks. Confined to one thread; destroyed by its owner only, not by what it calls.
//   greeting -> reading (-> thinking) -> answering -> reading, or ending -> over
// `thinking`: the answer comes later.
// `ending`: the last answer is written, and what the peer still sends is thrown away, so that the
// answer is not lost to a reset; no more than a body may have. Nothing is read while an answer is
// written. The owner ends a phase that takes too long.
// Failure: advance() and wake() throw Error when TLS with the peer fails.
class HttpConnection {
 public:
  // What the owner's clock measures.
  enum class Phase { idle, request, upload, thinking, answer, stream, ending, over };

  // `limits` and `handlers` must outlive it. `wake`: what requests carry.
  HttpConnection(std::unique_ptr<Channel> channel, HttpPeer peer, const HttpLimits& limits,
                 const HttpHandlers& handlers, std::function<void()> wake);
  ~HttpConnection();

  const HttpPeer& peer() const { return peer_; }
  int fd() const { return channel_->fd(); }
  Phase phase() const;
  int served() const { return served_; }          // requests
  std::uint64_t moved() const { return moved_; }  // bytes, both ways
  std::size_t pending() const;                    // bytes that it holds
  bool has_output() const { return sent_ < output_.size(); }
  std::uint32_t wanted_events() const;
  // advance() is to be called again, whatever the socket says: more was read already.
  bool is_busy() const { return is_busy_; }
  // A stream that waits to be woken, and for how long at most.
  bool is_waiting() const { return stream_ && then_.kind == BodyStream::Then::Kind::wait; }
  std::chrono::milliseconds poll() const { return then_.poll; }

  // Reads and writes what can be, a bounded part of it, and serves a request that is whole.
  void advance(std::uint32_t events);
  void wake();  // asks a stream that waits, or for a later answer
  // Instead of the request that is being read.
  void refuse(int status);

 private:
  enum class State { greeting, reading, thinking, answering, ending, over };
  class Parser;
  bool greet();
  bool read();
  void parse();
  void parse_more();
  bool take_head();
  bool take_body();
  void take_later();
  void answer(HttpResponse response);
  void send();
  void pull();
  void end_answer();

  std::unique_ptr<Channel> channel_;
  const HttpPeer peer_;
  const HttpLimits& limits_;
  const HttpHandlers& handlers_;
  const std::function<void()> wake_;
  State state_ = State::greeting;
  int served_ = 0;
  std::uint64_t moved_ = 0;
  bool is_busy_ = false;

  // The request.
  std::unique_ptr<Parser> parser_;
  std::string input_;
  HttpRequest request_{};
  std::unique_ptr<BodySink> sink_;
  bool is_refused_ = false;  // it broke a limit or a rule: nothing more is read
  std::size_t thrown_away_ = 0;

  // The answer.
  std::unique_ptr<LaterAnswer> later_;
  std::string output_;
  std::size_t sent_ = 0;  // of output_
  std::unique_ptr<BodyStream> stream_;
  BodyStream::Then then_{};
  std::optional<std::uint64_t> stream_left_;  // of its size, where that is known
  bool is_chunked_ = false;
  bool keeps_ = false;  // the connection, for another request
};

}  // namespace cohort

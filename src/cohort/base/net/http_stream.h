#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace cohort {

// The body of an answer that is made while it is sent: a log that grows, a file, an archive. The
// server asks for the next bytes when its socket has taken the last ones, so that no more than one
// piece is ever in memory.
//
// A reader that closes its side of the connection, were it only for sending, ends the stream.
//
// Threads: made, asked and destroyed on the server's thread, at the latest when the connection
// ends: it must not block. What happens on other threads calls the request's `wake`.
// Failure: an exception that leaves next() is logged and ends the connection, so that the reader
// sees a body without its end.
class BodyStream {
 public:
  static constexpr std::size_t kPiece = 64 * 1024;

  // What to do when the bytes of this call are sent.
  struct Then {
    enum class Kind { more, wait, end };
    Kind kind = Kind::more;
    std::chrono::milliseconds poll{0};  // wait: at most so long

    static Then more() { return {}; }  // ask again
    // Ask again when woken, or after `poll` at the latest.
    static Then wait(std::chrono::milliseconds poll) { return {Kind::wait, poll}; }
    static Then end() { return {Kind::end, std::chrono::milliseconds(0)}; }
  };

  virtual ~BodyStream() = default;

  // Puts the next bytes behind what `bytes` holds, about kPiece at most.
  virtual Then next(std::string& bytes) = 0;

  // Its Content-Length where that is known; else it is sent in chunks. A stream that then has fewer
  // or more bytes is broken off.
  virtual std::optional<std::uint64_t> size() const { return std::nullopt; }
};

}  // namespace cohort

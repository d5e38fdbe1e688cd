#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/base/deadline.h"

namespace cohort {

class HttpReplyReader;

struct SseEvent {
  std::string name = "message";
  std::string id = {};  // the last that was sent, also with an earlier event
  std::string data = {};
};

// Server-sent events (the HTML standard's text/event-stream) from bytes that come in any pieces. No
// input, no output; confined to one thread.
// Failure: next() throws ProtocolError for an event of more than `most` bytes.
class SseReader {
 public:
  explicit SseReader(std::size_t most = 4 << 20) : most_(most) {}

  void feed(std::string_view bytes);
  // The next whole event; nothing until more is fed. One without data is none; comments neither.
  std::optional<SseEvent> next();

  const std::string& last_id() const { return last_id_; }
  std::optional<std::chrono::milliseconds> retry() const { return retry_; }

 private:
  void take_line(std::string_view line);

  std::size_t most_;
  std::string input_;
  std::size_t used_ = 0;        // of input_
  bool is_begun_ = false;       // the byte order mark may come no more
  bool skips_newline_ = false;  // the last line ended with a carriage return
  SseEvent event_{};
  bool has_data_ = false;
  std::string last_id_;
  std::optional<std::chrono::milliseconds> retry_;
};

// The next event of a reply; nothing when the reply ended. Throws what the two throw.
std::optional<SseEvent> next_event(HttpReplyReader& reply, SseReader& reader, Deadline deadline);

// One event as it is sent. `name` and `id` hold no line ends; `data` may.
std::string to_sse(std::string_view name, std::string_view id, std::string_view data);

}  // namespace cohort

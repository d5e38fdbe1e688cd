#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "cohort/base/net/http_message.h"

namespace cohort::service {

// What all streams of server-sent events of the API have in common: `retry: 1000` at first, and a
// comment when nothing was sent for 15 s, so that both ends notice when the other is gone.
class SseStream : public BodyStream {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kQuiet{15};

  explicit SseStream(std::function<void()> touch) : touch_(std::move(touch)) {}

  Then next(std::string& bytes) final;

 protected:
  virtual Then fill(std::string& bytes) = 0;  // as BodyStream::next()

 private:
  std::function<void()> touch_;
  Clock::time_point last_sent_{};
};

// One event behind `bytes`. `json` has no line ends, as none that is dumped has.
void add_event(std::string& bytes, std::string_view name, std::string_view id,
               std::string_view json);

HttpResponse sse_response(std::unique_ptr<SseStream> stream);

}  // namespace cohort::service

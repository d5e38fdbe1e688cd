#include "cohort/service/api/allowed_stream.h"

#include <algorithm>
#include <chrono>

#include "cohort/base/error.h"

namespace cohort::service {
namespace {

class AllowedStream : public BodyStream {
 public:
  AllowedStream(std::unique_ptr<BodyStream> stream, std::function<bool()> is_allowed)
      : stream_(std::move(stream)), is_allowed_(std::move(is_allowed)) {}

  Then next(std::string& bytes) override {
    if (const auto now = Clock::now(); now >= next_look_) {
      if (!is_allowed_()) throw Error("the token of its reader is no longer valid");
      next_look_ = now + kLookInterval;
    }
    Then then = stream_->next(bytes);
    if (then.kind == Then::Kind::wait) then.poll = std::min(then.poll, kLookInterval);
    return then;
  }

  std::optional<std::uint64_t> size() const override { return stream_->size(); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLookInterval{500};

  std::unique_ptr<BodyStream> stream_;
  std::function<bool()> is_allowed_;
  Clock::time_point next_look_ = Clock::now() + kLookInterval;
};

}  // namespace

std::unique_ptr<BodyStream> while_allowed(std::unique_ptr<BodyStream> stream,
                                          std::function<bool()> is_allowed) {
  return std::make_unique<AllowedStream>(std::move(stream), std::move(is_allowed));
}

}  // namespace cohort::service

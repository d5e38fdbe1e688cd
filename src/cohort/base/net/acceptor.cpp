#include "cohort/base/net/acceptor.h"

#include <sys/epoll.h>

#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/net/socket.h"

namespace cohort {
namespace {

constexpr int kAcceptsPerRound = 64;
constexpr RateLimit kOneLine{.lines = 1, .period = std::chrono::seconds(10)};

}  // namespace

Acceptor::Acceptor(EventLoop& loop, UniqueFd listener, std::string name, Handler handler)
    : loop_(loop),
      listener_(std::move(listener)),
      handler_(std::move(handler)),
      log_(std::move(name), "pauses of accepting", kOneLine) {
  watch();
}

Acceptor::~Acceptor() {
  loop_.cancel(timer_);
  loop_.remove(listener_.get());
}

void Acceptor::watch() {
  loop_.add(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept(); });
}

void Acceptor::accept() {
  try {
    for (int i = 0; i < kAcceptsPerRound; ++i) {
      AcceptResult result = try_accept(listener_.get());
      if (result.is_exhausted()) return pause(accept_failure(result.code));
      if (!result.socket) return;
      handler_(std::move(result.socket));
    }
  } catch (const SystemError& error) {
    pause(error.what());
  }
}

void Acceptor::pause(const std::string& reason) {
  log_.warning(reason);
  loop_.remove(listener_.get());
  timer_ = loop_.call_after(kAcceptPause, [this] { watch(); });
}

}  // namespace cohort

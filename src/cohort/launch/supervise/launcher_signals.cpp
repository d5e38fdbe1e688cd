#include "cohort/launch/supervise/launcher_signals.h"

#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::launch {
namespace {

sigset_t launcher_signal_set() {
  sigset_t set;
  ::sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD}) ::sigaddset(&set, signal);
  struct sigaction hangup {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) ::sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

LauncherSignals::LauncherSignals(EventLoop& loop, std::function<void(int)> on_signal,
                                 std::function<void()> afterwards)
    : loop_(loop), on_signal_(std::move(on_signal)), afterwards_(std::move(afterwards)) {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error like a full disk
  ::signal(SIGCHLD, SIG_DFL);  // a caller that ignores it hands that down: the kernel would reap
  const sigset_t set = launcher_signal_set();
  ::sigprocmask(SIG_BLOCK, &set, &old_mask_);
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) {
    const int code = errno;
    ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
    throw SystemError("cannot listen for signals", code);
  }
  loop_.add(signals_.get(), EPOLLIN, [this](std::uint32_t) { take(); });
}

LauncherSignals::~LauncherSignals() {
  loop_.remove(signals_.get());
  ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
}

void LauncherSignals::take() {
  signalfd_siginfo info;
  bool any = false;
  for (; ::read(signals_.get(), &info, sizeof info) == sizeof info; any = true)
    on_signal_(static_cast<int>(info.ssi_signo));
  if (any) afterwards_();
}

}  // namespace cohort::launch

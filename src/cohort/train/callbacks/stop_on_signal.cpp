#include "cohort/train/callbacks/stop_on_signal.h"

#include <fmt/core.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "cohort/base/error.h"

namespace cohort::train {
namespace {

// A signal's handler reaches nothing but globals.
std::atomic<int> received_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

void note_signal(int number) { received_signal = number; }

}  // namespace

StopOnSignal::StopOnSignal(std::vector<int> signals) : signals_(std::move(signals)) {
  if (signals_.empty())
    throw InvalidInput("StopOnSignal: signals must have at least 1, got none",
                       {.advice = "Give SIGTERM, for example."});
  for (const int number : signals_)
    if (number < 1 || number >= NSIG || number == SIGKILL || number == SIGSTOP)
      throw InvalidInput(
          fmt::format("StopOnSignal cannot wait for signal {}", number),
          {.advice = "Give SIGTERM, SIGINT, SIGUSR1 or another that can be caught."});
}

StopOnSignal::~StopOnSignal() { put_back(); }

void StopOnSignal::on_train_begin(FitState&) {
  if (!before_.empty()) return;
  received_signal = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  for (const int number : signals_) {
    struct sigaction before {};
    if (::sigaction(number, &action, &before) != 0)
      throw SystemError(fmt::format("cannot catch signal {}", number), errno);
    before_.push_back(before);
  }
}

void StopOnSignal::stop_if_signalled(FitState& fit) const {
  if (const int number = received_signal; number != 0)
    fit.interrupt(fmt::format("signal {} ({})", number, ::strsignal(number)));
}

void StopOnSignal::on_step_end(FitState& fit) { stop_if_signalled(fit); }
void StopOnSignal::on_epoch_end(FitState& fit) { stop_if_signalled(fit); }
void StopOnSignal::on_train_end(FitState&) { put_back(); }
void StopOnSignal::on_failure(FitState&) noexcept { put_back(); }

void StopOnSignal::put_back() noexcept {
  for (std::size_t i = 0; i < before_.size(); ++i) ::sigaction(signals_[i], &before_[i], nullptr);
  before_.clear();
}

}  // namespace cohort::train

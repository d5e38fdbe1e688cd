#include "cohort/collective/device/failure_watch.h"

#include <fmt/format.h>

#include <chrono>
#include <system_error>
#include <utility>

#include "cohort/base/log/log.h"

namespace cohort::collective {

namespace {

constexpr std::chrono::milliseconds kBetweenLooks{50};

}  // namespace

FailureWatch::FailureWatch(std::function<bool()> ends) : ends_(std::move(ends)) {
  try {
    thread_ = std::thread([this] { watch(); });
  } catch (const std::system_error& error) {
    log::write(
        log::Level::error,
        fmt::format("the loss of a rank is noticed only by calls on GPUs, and not while one is "
                    "blocked: no thread to watch: {}",
                    error.what()));
  }
}

FailureWatch::~FailureWatch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void FailureWatch::watch() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kBetweenLooks, [this] { return stop_; })) {
    lock.unlock();
    if (ends_()) return;
    lock.lock();
  }
}

}  // namespace cohort::collective

#include "cohort/service/store/periodic_thread.h"

#include <utility>

namespace cohort::service {

void PeriodicThread::start(Turn turn) {
  stopping_ = false;
  thread_ = std::thread([this, turn = std::move(turn)] {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      lock.unlock();
      const auto pause = turn();
      lock.lock();
      asked_.wait_for(lock, pause, [this] { return stopping_; });
    }
  });
}

void PeriodicThread::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  asked_.notify_all();
  thread_.join();
}

}  // namespace cohort::service

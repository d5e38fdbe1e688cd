#include "cohort/collective/executor.h"

namespace cohort::collective {

Executor::~Executor() { join(); }

void Executor::join() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Executor::add(std::function<void()> job) {
  std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

bool Executor::idle() {
  std::lock_guard lock(mutex_);
  return jobs_.empty() && !running_;
}

bool Executor::runs_here() {
  std::lock_guard lock(mutex_);
  return thread_.get_id() == std::this_thread::get_id();
}

void Executor::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    {
      const auto job = std::move(jobs_.front());
      jobs_.pop_front();
      running_ = true;
      lock.unlock();
      job();
    }
    lock.lock();
    running_ = false;
  }
}

}  // namespace cohort::collective

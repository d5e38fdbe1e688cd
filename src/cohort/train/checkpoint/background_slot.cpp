#include "cohort/train/checkpoint/background_slot.h"

#include <utility>

#include "cohort/base/error.h"

namespace cohort::train {

BackgroundSlot::BackgroundSlot() : thread_([this](std::stop_token stop) { run(stop); }) {}

void BackgroundSlot::submit(Job job, Deadline deadline) {
  COHORT_CHECK(thread_.joinable(), "a job was submitted after close()");
  std::unique_lock lock(mutex_);
  wait_until_idle(lock, deadline);
  job_ = std::move(job);
  changed_.notify_all();
}

void BackgroundSlot::flush(Deadline deadline) {
  std::unique_lock lock(mutex_);
  wait_until_idle(lock, deadline);
}

void BackgroundSlot::close(Deadline deadline) {
  if (!thread_.joinable()) return;
  std::exception_ptr error;
  try {
    flush(deadline);
  } catch (const TimeoutError&) {
    throw;
  } catch (...) {
    error = std::current_exception();
  }
  abandon();
  if (error) std::rethrow_exception(error);
}

std::exception_ptr BackgroundSlot::abandon() {
  if (!thread_.joinable()) return nullptr;
  thread_.request_stop();
  thread_.join();
  return std::exchange(error_, nullptr);
}

void BackgroundSlot::wait_until_idle(std::unique_lock<std::mutex>& lock, Deadline deadline) {
  auto idle = [this] { return !job_; };
  if (deadline.is_never())
    changed_.wait(lock, idle);
  else if (!changed_.wait_until(lock, deadline.when(), idle))
    throw TimeoutError("the background job is still under way at the deadline");
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void BackgroundSlot::run(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return bool(job_); })) {
    std::exception_ptr error;
    lock.unlock();
    try {
      job_(stop);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    Job done = std::exchange(job_, nullptr);
    error_ = error;
    changed_.notify_all();
    lock.unlock();
    done = nullptr;  // frees what the job held, without the lock
    lock.lock();
  }
}

}  // namespace cohort::train

#include "cohort/collective/work_state.h"

#include "cohort/base/error.h"
#include "cohort/base/process/wait_interrupt.h"

namespace cohort::collective {

void QueuedWork::run() {
  std::exception_ptr error;
  try {
    run_();
  } catch (...) {
    error = std::current_exception();
  }
  std::lock_guard lock(mutex_);
  error_ = error;
  done_ = true;
  changed_.notify_all();
}

bool QueuedWork::poll() {
  std::lock_guard lock(mutex_);
  return done_;
}

void QueuedWork::wait(Deadline deadline) {
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return done_; };
  if (!wait_interruptibly(changed_, lock, ready, deadline))
    throw TimeoutError("the asynchronous call is not done yet");
  if (error_) std::rethrow_exception(error_);
}

TransferWork::TransferWork(std::shared_ptr<void> owner,
                           std::unique_ptr<transport::Transfer> transfer, std::size_t bytes,
                           Deadline deadline)
    : owner_(std::move(owner)),
      transfer_(std::move(transfer)),
      bytes_(bytes),
      deadline_(deadline) {}

bool TransferWork::poll() {
  std::lock_guard lock(mutex_);
  return done_ || (bytes_ > 0 && transfer_->done() >= bytes_);
}

// The group's thread finishes transfers one after the other, and moves all of them while it waits
// for one; so a waiter with an earlier deadline than the call's looks now and then.
void TransferWork::wait(Deadline deadline) {
  constexpr auto kLook = std::chrono::milliseconds(1);
  if (deadline.when() >= deadline_.when()) finish();
  std::unique_lock lock(mutex_);
  while (!done_ && !(bytes_ > 0 && transfer_->done() >= bytes_)) {
    if (deadline.expired()) throw TimeoutError("the asynchronous message is not done yet");
    changed_.wait_for(lock, kLook);
  }
  if (error_) std::rethrow_exception(error_);
}

void TransferWork::finish() noexcept {
  std::exception_ptr error;
  try {
    transfer_->wait(bytes_, deadline_);
  } catch (...) {
    error = std::current_exception();
  }
  std::lock_guard lock(mutex_);
  if (done_) return;
  error_ = error;
  done_ = true;
  changed_.notify_all();
}

}  // namespace cohort::collective

#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "cohort/base/deadline.h"
#include "cohort/transport/messenger.h"

namespace cohort::collective {

// What a Work points to. Thread-safe.
class WorkState {
 public:
  virtual ~WorkState() = default;
  virtual bool poll() = 0;
  virtual void wait(Deadline deadline) = 0;
};

// A collective that the group's thread runs.
class QueuedWork : public WorkState {
 public:
  explicit QueuedWork(std::function<void()> run) : run_(std::move(run)) {}
  void run();  // once
  bool poll() override;
  void wait(Deadline deadline) override;

 private:
  std::function<void()> run_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::exception_ptr error_;
};

// A message under way. The thread that waits for it moves it along.
class TransferWork : public WorkState {
 public:
  // `owner` keeps alive what the transfer uses.
  TransferWork(std::shared_ptr<void> owner, std::unique_ptr<transport::Transfer> transfer,
               std::size_t bytes, Deadline deadline);
  bool poll() override;
  void wait(Deadline deadline) override;
  void finish() noexcept;  // waits until the call's own deadline; errors are kept for wait()

 private:
  std::shared_ptr<void> owner_;
  std::unique_ptr<transport::Transfer> transfer_;
  std::size_t bytes_;
  Deadline deadline_;
  std::mutex mutex_;  // guards the two below
  std::condition_variable changed_;
  bool done_ = false;
  std::exception_ptr error_;
};

}  // namespace cohort::collective

#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cohort/base/deadline.h"
#include "cohort/base/process/checked_wait.h"

namespace cohort::transport {

// Where ranks that do not know each other yet leave notes: what forming a group needs of the
// rendezvous store, and no more. Thread-safe.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  virtual void set(const std::string& key, const std::string& value, Deadline deadline) = 0;
  // Waits until a rank has set `key`. Throws TimeoutError that names the key.
  virtual std::string get(const std::string& key, Deadline deadline) = 0;
};

// Another rendezvous, whose waits end as soon as `check` throws; until forget(), from then on it is
// the other one and nothing else.
class CheckedRendezvous : public Rendezvous {
 public:
  CheckedRendezvous(std::shared_ptr<Rendezvous> other, Check check)
      : other_(std::move(other)), check_(std::move(check)) {}
  void set(const std::string& key, const std::string& value, Deadline deadline) override {
    other_->set(key, value, deadline);
  }
  std::string get(const std::string& key, Deadline deadline) override {
    return wait_checking(forgotten_.load() ? Check() : check_, deadline,
                         [&](Deadline slice) { return other_->get(key, slice); });
  }
  void forget() { forgotten_.store(true); }

 private:
  std::shared_ptr<Rendezvous> other_;
  const Check check_;
  std::atomic<bool> forgotten_ = false;
};

// For ranks that are threads of one process, and tests.
class MemoryRendezvous : public Rendezvous {
 public:
  void set(const std::string& key, const std::string& value, Deadline deadline) override;
  std::string get(const std::string& key, Deadline deadline) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace cohort::transport

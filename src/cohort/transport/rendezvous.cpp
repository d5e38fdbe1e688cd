#include "cohort/transport/rendezvous.h"

#include "cohort/base/error.h"
#include "cohort/base/process/wait_interrupt.h"

namespace cohort::transport {

void MemoryRendezvous::set(const std::string& key, const std::string& value, Deadline) {
  std::lock_guard lock(mutex_);
  values_[key] = value;
  changed_.notify_all();
}

std::string MemoryRendezvous::get(const std::string& key, Deadline deadline) {
  std::unique_lock lock(mutex_);
  const auto present = [&] { return values_.contains(key); };
  if (!wait_interruptibly(changed_, lock, present, deadline))
    throw TimeoutError(fmt::format("no rank set '{}' in time", key));
  return values_.at(key);
}

}  // namespace cohort::transport

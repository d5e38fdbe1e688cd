#include "cohort/service/store/store_readers.h"

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/service/store/sqlite.h"

namespace cohort::service {

StoreReaders::Lease::Lease(StoreReaders& from) : readers(from), store(from.take()) {
  store->database().execute("BEGIN");
}

StoreReaders::Lease::~Lease() {
  try {
    store->database().execute("COMMIT");
    const std::lock_guard lock(readers.mutex_);
    readers.idle_.push_back(std::move(store));
  } catch (const std::exception& error) {  // the next one opens another
    log::warning("a reader of the run store is given up: {}", error.what());
  }
}

std::unique_ptr<RunStore> StoreReaders::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto store = std::move(idle_.back());
      idle_.pop_back();
      return store;
    }
  }
  return std::make_unique<RunStore>(root_, Durability::process_death);
}

}  // namespace cohort::service

#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <vector>

#include "cohort/service/store/run_store.h"

namespace cohort::service {

// Run stores for what is read on other threads than the HTTP server's: each is in use by one at a
// time, and kept open for the next.
//
// Threads: any. Failure: that of RunStore, and of what is done with it.
class StoreReaders {
 public:
  explicit StoreReaders(std::filesystem::path root) : root_(std::move(root)) {}

  // `use(store)`; what it reads is of one moment, whatever others write meanwhile.
  template <typename Use>
  auto read(const Use& use) {
    const Lease lease(*this);
    return use(*lease.store);
  }

 private:
  // A store, within a transaction that only reads.
  struct Lease {
    explicit Lease(StoreReaders& from);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    StoreReaders& readers;
    std::unique_ptr<RunStore> store;
  };
  std::unique_ptr<RunStore> take();

  const std::filesystem::path root_;
  std::mutex mutex_;  // guards:
  std::vector<std::unique_ptr<RunStore>> idle_;
};

}  // namespace cohort::service

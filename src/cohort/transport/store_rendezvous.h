#pragma once

#include <string>

#include "cohort/cluster/store/store_client.h"
#include "cohort/transport/rendezvous.h"

namespace cohort::transport {

// Notes left in the job's rendezvous store, under a prefix of their own (Session::key gives one).
// Thread-safe. `store` must outlive this.
class StoreRendezvous : public Rendezvous {
 public:
  StoreRendezvous(cluster::StoreClient& store, std::string prefix)
      : store_(store), prefix_(std::move(prefix)) {}

  void set(const std::string& key, const std::string& value, Deadline deadline) override {
    store_.set(prefix_ + "/" + key, value, deadline);
  }
  std::string get(const std::string& key, Deadline deadline) override {
    return store_.get(prefix_ + "/" + key, deadline);
  }

 private:
  cluster::StoreClient& store_;
  std::string prefix_;
};

}  // namespace cohort::transport

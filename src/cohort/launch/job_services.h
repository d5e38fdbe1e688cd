#pragma once

#include "cohort/base/secret.h"
#include "cohort/base/unique_fd.h"
#include "cohort/cluster/address.h"
#include "cohort/cluster/store_server.h"

namespace cohort::launch {

// What the launcher hosts for its tasks as long as the job lives: the job's secret and the rendezvous
// store, which listens on the loopback interface, on a port that the system chose.
//
// Construct it after the supervisor has blocked its signals: the store runs a thread.
class JobServices {
 public:
  JobServices()
      : secret_(Secret::generate()),
        secret_fd_(secret_.to_memfd()),
        store_({.bind = {"127.0.0.1", 0}, .secret = secret_}) {}

  const cluster::Address& store() const { return store_.address(); }
  int secret_fd() const { return secret_fd_.get(); }  // as COHORT_SECRET_FD; valid while this lives

 private:
  Secret secret_;
  UniqueFd secret_fd_;
  cluster::StoreServer store_;
};

}  // namespace cohort::launch

#pragma once

#include "cohort/base/secret.h"
#include "cohort/base/unique_fd.h"
#include "cohort/cluster/address.h"
#include "cohort/cluster/horovod_rendezvous.h"
#include "cohort/cluster/store_server.h"

namespace cohort::launch {

// What the launcher hosts for the tasks of one attempt: a secret, the rendezvous store, and the
// key-value server that Horovod's scripts ask for. Both listen on the loopback interface, on ports
// that the system chose. A new attempt gets new ones, so that nothing of an earlier attempt,
// neither a value nor a straggler, finds its way in.
//
// Construct it after the supervisor has blocked its signals: the servers run threads.
class JobServices {
 public:
  JobServices()
      : secret_(Secret::generate()),
        secret_fd_(secret_.to_memfd()),
        store_({.bind = {"127.0.0.1", 0}, .secret = secret_}),
        horovod_({.bind = {"127.0.0.1", 0}}) {}

  const cluster::Address& store() const { return store_.address(); }
  const cluster::Address& horovod_rendezvous() const { return horovod_.address(); }
  int secret_fd() const { return secret_fd_.get(); }  // as COHORT_SECRET_FD; valid while this lives

 private:
  Secret secret_;
  UniqueFd secret_fd_;
  cluster::StoreServer store_;
  cluster::HorovodRendezvous horovod_;
};

}  // namespace cohort::launch

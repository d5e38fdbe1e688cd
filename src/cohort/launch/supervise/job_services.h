#pragma once

#include <optional>

#include "cohort/base/crypto/secret.h"
#include "cohort/base/unique_fd.h"
#include "cohort/cluster/address.h"
#include "cohort/cluster/horovod/horovod_rendezvous.h"
#include "cohort/cluster/store/store_server.h"

namespace cohort::launch {

// How many threads JobServices starts at most: the store's, that of Horovod's server, and an
// elastic job's coordinator.
inline constexpr int kServiceThreads = 4;

// What the launcher hosts for the tasks of one attempt: a secret, the rendezvous store, and, where
// the job asks for it, the key-value server of Horovod's programs. The store listens on the
// loopback interface, or on every interface where `address` is one that other hosts connect to: the
// secret protects it. Horovod's server, which knows no secret, serves this user on this machine
// only. The system chooses the ports. A new attempt gets new ones, so that nothing of an earlier
// attempt, neither a value nor a straggler, finds its way in.
//
// Construct it after the supervisor has blocked its signals: the servers run threads.
class JobServices {
 public:
  JobServices(const std::string& address, bool horovod)
      : secret_(Secret::generate()),
        secret_fd_(secret_.to_memfd()),
        store_({.bind = {cluster::is_loopback(address) ? "127.0.0.1" : "", 0}, .secret = secret_}),
        address_{address, store_.address().port} {
    if (horovod) horovod_.emplace();
  }

  const cluster::Address& store() const { return address_; }
  std::optional<cluster::Address> horovod_rendezvous() const {
    if (!horovod_) return std::nullopt;
    return horovod_->address();
  }
  const Secret& secret() const { return secret_; }
  int secret_fd() const { return secret_fd_.get(); }  // as COHORT_SECRET_FD; valid while this lives

 private:
  Secret secret_;
  UniqueFd secret_fd_;
  cluster::StoreServer store_;
  cluster::Address address_;  // the store's, as tasks see it
  std::optional<cluster::HorovodRendezvous> horovod_;
};

}  // namespace cohort::launch

#pragma once

#include <cstddef>
#include <memory>

#include "cohort/cluster/address.h"

namespace cohort::cluster {

struct HorovodRendezvousOptions {
  Address bind{"127.0.0.1", 0};  // port 0: the system chooses
  std::size_t max_key = 1024;
  std::size_t max_value = std::size_t{16} << 20;
  std::size_t max_total = std::size_t{256} << 20;  // of all keys and values
};

// The HTTP key-value store through which Horovod's gloo controller finds its peers: GET, PUT and
// DELETE of /scope/key; 404 for what is not there, 413 and 507 over the limits.
// In Horovod's own scopes (global, local_HOST, cross_N) a DELETE says "I have found all my peers":
// values stay until as many said so as there are keys, since a slower task may still need them.
//
// It is as open as Horovod's client makes it, which knows no secret: whoever can connect can write.
// Bind it to loopback unless the job spans hosts.
// Threads: own ones; the methods may be called from any thread.
// Failure: the constructor throws SystemError when it cannot listen.
class HorovodRendezvous {
 public:
  explicit HorovodRendezvous(HorovodRendezvousOptions options = {});
  ~HorovodRendezvous();  // close()
  HorovodRendezvous(const HorovodRendezvous&) = delete;
  HorovodRendezvous& operator=(const HorovodRendezvous&) = delete;

  const Address& address() const;

  // Returns within a few seconds, whatever clients do. May be called again.
  void close();

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace cohort::cluster

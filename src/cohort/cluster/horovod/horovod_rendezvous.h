#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "cohort/cluster/address.h"

namespace cohort::cluster {

struct HorovodRendezvousOptions {
  Address bind{"127.0.0.1", 0};  // port 0: the system chooses
  std::size_t max_key = 1024;    // of a scope's name, and of a key
  std::size_t max_value = std::size_t{1} << 20;
  std::size_t max_total = std::size_t{16} << 20;  // of all keys and values, and what they cost
  std::size_t max_connections = 256;              // past it the oldest goes
  std::chrono::milliseconds request_time{5000};
};

// The HTTP key-value store through which Horovod's gloo controller finds its peers: GET, PUT and
// DELETE of /scope/key; 404 for what is not there, 413 and 507 over the limits. Names are compared
// as they are sent.
// In Horovod's own scopes (global, local_HOST, cross_N) a DELETE says "I have found all my peers":
// values stay until that was said of every key, since a slower task may still need them.
//
// Horovod's client knows no secret and builds its paths itself, so the system vouches for it: only
// processes of this user on this machine are let in, and no byte of others is read.
// Threads: one of its own; the methods may be called from any thread.
// Failure: the constructor throws SystemError when it cannot listen, and InvalidInput where other
// machines could connect.
class HorovodRendezvous {
 public:
  explicit HorovodRendezvous(HorovodRendezvousOptions options = {});
  ~HorovodRendezvous();  // close()
  HorovodRendezvous(const HorovodRendezvous&) = delete;
  HorovodRendezvous& operator=(const HorovodRendezvous&) = delete;

  const Address& address() const;

  // Returns at once, whatever clients do. May be called again.
  void close();

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace cohort::cluster

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>

#include "cohort/ps/client/client_layout.h"
#include "cohort/ps/client/client_types.h"
#include "cohort/ps/client/requests.h"
#include "cohort/ps/client/step_state.h"

namespace cohort::ps {

// What the callers' threads and the client's own share. Guarded by `mutex` but for what is set once
// before there are two threads, and atomics.
struct ClientState {
  explicit ClientState(ClientOptions chosen);

  const ClientOptions options;
  const std::uint64_t process;  // tells this one from others that were the same worker
  std::atomic<std::uint64_t> reconnects{0};

  std::mutex mutex;
  std::condition_variable changed;
  std::exception_ptr failure;                  // of everything from then on
  std::shared_ptr<const ClientLayout> layout;  // from begin() on
  const InitialState* initial = nullptr;       // while the chief is in begin()
  bool begun = false;                          // begin() has returned
  StepState step;
  Requests requests;

  int servers() const { return static_cast<int>(options.servers.size()); }
  std::string server_name(int server) const;  // "ps/1 at host:2222"
  std::string worker_name() const;

  // Everything fails with this from now on. The first one counts.
  void fail(std::exception_ptr error);
  void fail_locked(std::exception_ptr error);
};

}  // namespace cohort::ps

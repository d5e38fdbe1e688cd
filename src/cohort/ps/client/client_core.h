#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cohort/base/net/event_loop.h"
#include "cohort/ps/client/client.h"
#include "cohort/ps/client/client_layout.h"
#include "cohort/ps/wire/connection.h"
#include "cohort/ps/wire/messages.h"

namespace cohort::ps {

// What a caller asks of several servers, each of which answers. Held by the caller that waits for
// it and by links while they send or receive its memory.
struct Request {
  enum class Kind { pull, rows, hold, cut, stats, leave };

  // One server's share.
  struct Part {
    bool wanted = false;
    bool done = false;
    std::vector<std::uint64_t> keys;       // rows
    std::vector<float> values;             // rows
    std::uint64_t version = 0;             // rows
    std::vector<std::uint64_t> sequences;  // hold
    std::string text;                      // stats
  };
  // Of a cut: a slice's state, or a piece of a table.
  struct Piece {
    std::int32_t slice = -1;
    std::int32_t table = -1;
    std::uint64_t updates = 0;
    std::vector<std::byte> bytes;
  };

  Request(Kind what, int servers) : kind(what), parts(static_cast<std::size_t>(servers)) {}

  Kind kind;
  std::uint64_t id = 0;
  std::uint64_t clock = 0;     // pull
  std::uint64_t before = 0;    // pull
  std::uint64_t sequence = 0;  // rows
  int table = 0;               // rows
  std::vector<Part> parts;     // by server
  int missing = 0;             // parts that are wanted and not done

  std::vector<std::uint64_t> limits;  // cut: by worker
  std::deque<Piece> pieces;           // cut: that the caller has not taken yet
  bool broken = false;                // hold, cut: a server was lost, it has to begin anew
};

// The step under way: what was pushed, and what the servers have answered.
struct StepState {
  struct Rows {
    bool pushed = false;
    bool answered = false;
    std::vector<std::byte> bytes;  // RowGradients::encode()
    std::uint64_t version = 0;     // of the rows that were pulled last
    std::uint64_t done = 0;        // version with which the push was answered
  };
  struct Server {
    std::vector<int> pushed;  // slices, in the order in which they were
    std::vector<Rows> tables;
    int missing = 0;  // slices and tables that are not answered
  };

  bool active = false;
  bool ended = false;
  StepBegin begin;
  StepEnd end;
  std::vector<char> pushed, answered;  // by slice
  std::vector<std::uint64_t> version;  // by slice: of the values that the caller has
  std::vector<Server> servers;
  std::vector<int> ready;  // slices that were answered and not copied yet
  int missing = 0;         // over all servers
  std::uint64_t dropped = 0;
  bool done = false;  // server 0's StepDone is here
  StepDone result;

  bool is_complete() const { return missing == 0 && done; }
};

class Link;

// What the callers' threads and the client's own share. Everything is guarded by `mutex` but what
// is set once before there are two threads, and atomics.
struct ClientCore {
  explicit ClientCore(ClientOptions chosen);
  ~ClientCore();

  const ClientOptions options;
  const std::uint64_t process;  // tells this one from others that were the same worker
  std::unique_ptr<transport::tcp::TlsContext> tls;
  EventLoop loop;
  std::atomic<std::uint64_t> reconnects{0};

  std::mutex mutex;
  std::condition_variable changed;
  std::exception_ptr failure;                  // of everything from then on
  std::shared_ptr<const ClientLayout> layout;  // from begin() on
  const InitialState* initial = nullptr;       // while the chief is in begin()
  bool begun = false;                          // begin() has returned
  StepState step;
  std::uint64_t next_request = 1;
  std::map<std::uint64_t, std::shared_ptr<Request>> requests;
  std::vector<std::unique_ptr<Link>> links;  // by server; set once

  int servers() const { return static_cast<int>(options.servers.size()); }
  std::string server_name(int server) const;  // "ps/1 at host:2222"
  std::string worker_name() const;

  // Everything fails with this from now on. The first one counts.
  void fail(std::exception_ptr error);
  void fail_locked(std::exception_ptr error);
  // Lets the links look for work.
  void wake();
  // Returns after the client's thread has run `call`.
  void run_on_loop(const std::function<void()>& call);

  // Waits until ready() holds. Throws the failure; at the deadline a TimeoutError that says
  // `what` did not happen, and what each server for which `missing` has words lacks.
  void wait(std::unique_lock<std::mutex>& lock, Deadline deadline, const std::string& what,
            const std::function<bool()>& ready,
            const std::function<std::string(int server)>& missing);

  // Hands a request to the links that it is for; complete(): waits until all have answered.
  void submit(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Request>& request);
  void complete(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Request>& request,
                const std::string& what, Deadline deadline);
  void forget(const std::shared_ptr<Request>& request);

 private:
  std::atomic<bool> wake_posted_{false};
};

}  // namespace cohort::ps

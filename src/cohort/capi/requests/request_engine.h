#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/capi/execution/executor.h"
#include "cohort/capi/execution/request.h"
#include "cohort/capi/negotiation/negotiator.h"
#include "cohort/capi/requests/exchange.h"
#include "cohort/collective/group.h"

namespace cohort::capi {

struct EngineOptions {
  ExecutorOptions executor;
  // The group's ranks in the world, for errors; empty: the same.
  std::vector<std::int32_t> world_ranks;
  // See cohort_world_options. A request of kLarge bytes does not wait for others to go with.
  static constexpr std::size_t kLarge = std::size_t{1} << 20;
  std::chrono::microseconds cycle{1000};
  // The group is broken, on the thread that noticed it; once. Must not call back in.
  std::function<void(const Failure& failure)> on_failure;
  std::function<void()> on_round;  // one begins
  // A request was negotiated from request.submitted to `ready`, and carried out until now.
  std::function<void(const Request& request, Request::Clock::time_point ready)> on_end;
};

// What this rank waits for, for a warning.
struct Stalled {
  struct One {
    Kind kind;
    std::string name;
    std::vector<int> missing;  // ranks that have not submitted it; empty: not known
    Request::Clock::time_point since;
  };
  std::vector<One> requests;
  std::uint64_t round = 0;  // of the engine; 0: none is under way
  Request::Clock::time_point round_since{};
};

// Carries out the requests of one process set, whatever the order in which its ranks submit them.
//
// Progress is made in rounds, one all_gather of news each (exchange.h, negotiator.h), which one
// thread at a time drives: a thread that waits for a request without a limit does so itself, so that
// a blocking call costs no switch between threads; others' requests are driven by a thread of this
// object, which first waits `cycle` for more to come unless a caller waits. A rank enters a round
// when it has news, or when others may have: a rank that others wait for rests, 50 us and up to 5 ms,
// before it enters one without news. With nothing outstanding no round is entered, and no thread
// runs.
//
// Threads: thread-safe; close() once, by one. Ownership: it holds the group until close(). Callbacks of requests
// are called with no lock held.
// Failure: an error of the group, fail() and close() end every request that is outstanding, and
// every later one, with the same failure; requests under way when their thread is out of the group.
class RequestEngine {
 public:
  RequestEngine(std::shared_ptr<collective::Group> group, EngineOptions options);
  ~RequestEngine();  // closes
  RequestEngine(const RequestEngine&) = delete;
  RequestEngine& operator=(const RequestEngine&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Without waiting. Throws InvalidInput for one that is wrong by itself, or whose name is
  // outstanding; StatusError when the engine has failed; the engine knows nothing of a request
  // then. `driven`: the caller waits for it at once.
  void submit(const RequestRef& request, bool driven = false);
  // True when it is over: see its failure. False: the deadline passed first. Throws Interrupted when
  // this thread's WaitInterrupt says so; the engine has then failed.
  bool wait(Request& request, Deadline deadline);
  // For an engine that has failed: returns when the engine uses the request's memory no more.
  void wait_until_over(Request& request);

  collective::Buffer allocate(std::size_t bytes);
  // The group of these ranks of this one's: from ExecutorOptions::change_sets only. Within the
  // group's timeout.
  std::unique_ptr<collective::Group> subgroup(std::span<const int> ranks);

  void fail(const Failure& failure);
  Stalled look() const;
  // Requests outstanding end with `failure`; then the group is given up.
  void close(const Failure& failure);

 private:
  using Lock = std::unique_lock<std::mutex>;

  void drive_for(Lock& lock, Request& request);
  void drive_round(Lock& lock);
  void rest(Lock& lock);
  std::vector<Task> take_ready(std::vector<Unit> units);
  void wait_for_end(Lock& lock, Request& request, Deadline deadline);
  void finish(Task& task, Request::Clock::time_point ready);
  void end(const RequestRef& request);
  void fail(Lock& lock, const Failure& failure, bool abort);
  void break_off(Lock& lock);
  std::string under_way(const std::vector<Task>& tasks) const;
  void pass_on();
  bool is_left_to_thread() const;
  void run_thread();
  void leave_to_thread();
  void start_thread();  // where there is none
  void wake_thread();

  const EngineOptions options_;
  const int rank_, size_;

  mutable std::mutex mutex_;      // guards what follows
  std::condition_variable over_;  // for waiting callers: a request ended, or the role is free
  std::condition_variable work_;  // for the thread: there is work, or a caller waits with a limit
  std::condition_variable news_;  // for the driver: a request was submitted, or all is over
  Negotiator negotiator_;
  std::unordered_map<std::string, RequestRef> outstanding_;  // not yet ready
  std::vector<RequestRef> fresh_;                            // of these, not yet announced
  bool has_large_ = false;                                   // of fresh_
  bool driving_ = false;
  bool in_round_ = false;  // the driver waits for the other ranks' news
  bool closing_ = false;
  int waiting_ = 0;  // callers that would drive
  int limited_ = 0;  // callers that wait with a limit, for the thread
  std::chrono::microseconds rest_;
  std::uint64_t round_ = 0;
  Request::Clock::time_point round_since_{};
  Failure failure_;
  std::thread thread_;
  bool thread_idles_ = false;  // it waits for work, not for company

  // Given up by close(). What is in it, but the group, is the driver's own.
  struct Parts {
    Parts(std::shared_ptr<collective::Group> owned, const ExecutorOptions& options)
        : group(std::move(owned)), exchange(*group), executor(*group, options) {}
    const std::shared_ptr<collective::Group> group;
    Exchange exchange;
    Executor executor;
  };
  std::shared_ptr<Parts> parts_;
};

}  // namespace cohort::capi

#include "cohort/parallel/strategies/run_replicas.h"

#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/membership/group/elastic_membership.h"

namespace cohort::parallel {

namespace {

// What failed first. An error that reports a peer's end counts only when there is no other:
// a replica that unwinds can be noticed by its neighbours before its own error arrives here.
class FirstError {
 public:
  // Called while the exception is being handled; returns what it says.
  std::string take() {
    std::string text = "an exception of unknown type";
    bool is_report = false;
    try {
      throw;
    } catch (const PeerError& error) {
      text = error.what();
      is_report = true;
    } catch (const TimeoutError& error) {
      text = error.what();
      is_report = true;
    } catch (const std::exception& error) {
      text = error.what();
    } catch (...) {
    }
    const std::lock_guard lock(mutex_);
    auto& first = is_report ? report_ : cause_;
    if (!first) first = std::current_exception();
    return text;
  }
  void rethrow() const {
    if (cause_) std::rethrow_exception(cause_);
    if (report_) std::rethrow_exception(report_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr cause_;
  std::exception_ptr report_;
};

// Puts LibTorch's number of threads back: between two runs it is the program's own.
class ThreadCount {
 public:
  ThreadCount() = default;
  ~ThreadCount() { at::set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_ = at::get_num_threads();
};

}  // namespace

void run_replicas(const std::vector<Replica>& replicas, int threads,
                  const std::function<void(const Replica&)>& body) {
  const ThreadCount as_before;
  FirstError first;
  const auto run_one = [&](const Replica& replica) {
    try {
      // A thread's own OpenMP and BLAS settings, not only LibTorch's.
      at::set_num_threads(threads);
      std::optional<c10::DeviceGuard> guard;
      if (!replica.device.is_cpu()) guard.emplace(replica.device);
      body(replica);
    } catch (...) {
      const std::string text =
          fmt::format("replica {} of {} stopped: {}", replica.rank, replica.size, first.take());
      if (replica.elastic != nullptr)
        replica.elastic->abort(text);
      else
        replica.group->abort(text);
    }
  };
  std::vector<std::thread> others;
  try {
    for (std::size_t i = 1; i < replicas.size(); ++i)
      others.emplace_back(run_one, std::cref(replicas[i]));
    run_one(replicas.front());
  } catch (const std::system_error&) {  // no more threads
    replicas.front().group->abort("replica 0 stopped: " + first.take());
  }
  for (std::thread& thread : others) thread.join();
  first.rethrow();
}

}  // namespace cohort::parallel

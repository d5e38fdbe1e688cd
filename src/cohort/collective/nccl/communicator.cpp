#include "cohort/collective/nccl/communicator.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::collective::nccl {

namespace {

// A call that is under way is asked after without a pause for as long as NCCL's thread takes for one
// whose peers are connected, and then in pauses that grow: NCCL has nothing to sleep on.
constexpr std::chrono::microseconds kWithoutPause{100};
constexpr std::chrono::microseconds kFirstPause{50};
constexpr std::chrono::microseconds kLongestPause{2000};

// How long an abort waits for a call that is being made: it takes microseconds, or is blocked.
constexpr std::chrono::seconds kToMakeACall{1};

constexpr const char* kDebugAdvice = "Run with NCCL_DEBUG=WARN for NCCL's own account.";

}  // namespace

std::string words_of(const NcclLibrary& library, Result result, Comm comm) {
  std::string text = library.get_error_string(result);
  const char* last = library.get_last_error(comm);
  if (last != nullptr && *last != '\0') text += fmt::format(" ({})", last);
  return text;
}

Communicator::Communicator(const NcclLibrary& library,
                           std::function<std::optional<std::string>()> broken)
    : library_(library), broken_(std::move(broken)) {
  watch_.emplace([this] { return find_failure(); });
}

Communicator::~Communicator() {
  watch_.reset();
  // Nothing else may use this object any more, so that no lock is needed.
  if (aborting_.joinable()) aborting_.join();
  // Not ncclCommDestroy, which waits for calls under way and so for peers that may be dead.
  if (comm_ != nullptr) library_.comm_abort(comm_);
}

void Communicator::throw_if_ended() const {
  if (why_ != nullptr) std::rethrow_exception(why_);
}

Result Communicator::make(Lock& lock, const std::function<Result()>& call) {
  makes_call_ = true;
  lock.unlock();
  const Result result = call();
  lock.lock();
  makes_call_ = false;
  changed_.notify_all();
  return result;
}

void Communicator::connect(int size, const UniqueId& id, int rank, Deadline deadline) {
  Lock lock(mutex_);
  throw_if_ended();
  Config config;
  Comm comm = nullptr;
  const Result result =
      make(lock, [&] { return library_.comm_init_rank_config(&comm, size, id, rank, &config); });
  comm_ = comm;
  if (why_ != nullptr) give_up_comm();  // it ended while there was none
  throw_if_ended();
  wait(lock, result, "ncclCommInitRankConfig", deadline);
}

void Communicator::call(const std::string& what, Deadline deadline,
                        const std::function<Result(Comm)>& start) {
  Lock lock(mutex_);
  throw_if_ended();
  const Result result = make(lock, [&, comm = comm_] { return start(comm); });
  throw_if_ended();
  wait(lock, result, what, deadline);
}

void Communicator::wait(Lock& lock, Result result, const std::string& what, Deadline deadline) {
  const auto begin = Deadline::Clock::now();
  auto pause = kFirstPause;
  while (result == Result::in_progress) {
    const auto now = Deadline::Clock::now();
    if (deadline.expired()) {
      const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - begin);
      end(std::make_exception_ptr(TimeoutError(
          fmt::format("NCCL was not ready after {} ms: a rank has not made the same call, or does "
                      "not answer",
                      waited.count()),
          {.during = what,
           .advice = "Look for a rank that is stopped or has failed; NCCL_DEBUG=INFO says what "
                     "NCCL waits for."})));
    } else if (now - begin < kWithoutPause) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    } else {
      changed_.wait_for(lock, std::min<Deadline::Clock::duration>(pause, deadline.remaining()));
      pause = std::min(pause * 2, kLongestPause);
    }
    throw_if_ended();
    result = ask();
  }
  if (result == Result::success) return;
  end(error_of(result, what));
  throw_if_ended();
}

Result Communicator::ask() const {
  Result state = Result::success;
  const Result asked = library_.comm_get_async_error(comm_, &state);
  return asked == Result::success ? state : asked;
}

std::exception_ptr Communicator::error_of(Result result, const std::string& what) const {
  const std::string text = fmt::format("NCCL failed: {}", words_of(library_, result, comm_));
  const ErrorContext context{.during = what, .advice = kDebugAdvice};
  if (result == Result::remote_error) return std::make_exception_ptr(PeerError(text, context));
  if (result == Result::timeout) return std::make_exception_ptr(TimeoutError(text, context));
  return std::make_exception_ptr(Error(text, context));
}

void Communicator::check() {
  find_failure();
  const Lock lock(mutex_);
  throw_if_ended();
}

bool Communicator::find_failure() noexcept {
  const std::optional<std::string> broken = broken_();
  const Lock lock(mutex_);
  if (why_ != nullptr) return true;
  if (broken) {
    end(std::make_exception_ptr(PeerError(*broken)));
    return true;
  }
  if (comm_ == nullptr || makes_call_) return false;
  const Result state = ask();
  if (state == Result::success || state == Result::in_progress) return false;
  end(error_of(state, "a call put on a stream before"));
  return true;
}

void Communicator::abort(const std::string& reason) noexcept {
  const Lock lock(mutex_);
  end(std::make_exception_ptr(PeerError(reason)));
}

void Communicator::end(std::exception_ptr why) noexcept {
  if (why_ != nullptr) return;
  why_ = std::move(why);
  changed_.notify_all();
  give_up_comm();
}

void Communicator::give_up_comm() noexcept {
  const Comm comm = std::exchange(comm_, nullptr);
  if (comm == nullptr) return;
  // On a thread of its own: NCCL stops the GPU's work at once, but returns only when all CUDA graphs
  // that hold calls of the communicator are gone, and the caller may be the one that destroys them.
  try {
    aborting_ = std::thread([this, comm] {
      {
        Lock lock(mutex_);
        changed_.wait_for(lock, kToMakeACall, [this] { return !makes_call_; });
      }
      library_.comm_abort(comm);
    });
  } catch (const std::system_error&) {  // no more threads: then here, and later
    library_.comm_abort(comm);
  }
}

}  // namespace cohort::collective::nccl

#include "cohort/capi/requests/request_engine.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/process/wait_interrupt.h"

namespace cohort::capi {

namespace {

using Clock = Request::Clock;

constexpr std::chrono::microseconds kShortestRest{50};
constexpr std::chrono::microseconds kLongestRest{5000};

constexpr std::size_t kMostNamed = 3;  // requests, in an error

bool is_large(const Signature& signature) {
  return std::any_of(signature.tensors.begin(), signature.tensors.end(),
                     [](const TensorType& one) { return one.bytes() >= EngineOptions::kLarge; });
}

// While it lives, a counter is one higher. Used with the engine's lock held.
class Counted {
 public:
  explicit Counted(int& counter) : counter_(counter) { ++counter_; }
  ~Counted() { --counter_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  int& counter_;
};

}  // namespace

RequestEngine::RequestEngine(std::shared_ptr<collective::Group> group, EngineOptions options)
    : options_(std::move(options)),
      rank_(group->rank()),
      size_(group->size()),
      negotiator_(rank_, size_),
      rest_(kShortestRest),
      parts_(std::make_shared<Parts>(std::move(group), options_.executor)) {}

RequestEngine::~RequestEngine() { close({COHORT_CLOSED, "the world was closed"}); }

void RequestEngine::submit(const RequestRef& request, bool driven) {
  const Signature& signature = *request->signature;
  check_signature(signature, size_);
  request->submitted = Clock::now();
  std::string key = key_of(signature.kind, signature.name);
  const bool large = is_large(signature);
  const Lock lock(mutex_);
  if (failure_.happened()) throw StatusError(failure_);
  if (outstanding_.contains(key))
    throw InvalidInput(
        fmt::format("{} '{}' is under way already", to_string(signature.kind), signature.name),
        {.advice = "Wait for it first, or give the requests different names."});
  // What may throw comes first: the caller of a refused submit takes its memory back.
  const bool left_to_thread = !driving_ && !driven && waiting_ == 0;
  if (left_to_thread) start_thread();
  fresh_.push_back(request);
  try {
    outstanding_.emplace(std::move(key), request);
  } catch (...) {
    fresh_.pop_back();
    throw;
  }
  has_large_ = has_large_ || large;
  if (driving_)
    news_.notify_one();
  else if (left_to_thread)
    wake_thread();
}

bool RequestEngine::wait(Request& request, Deadline deadline) {
  if (request.is_over()) return true;
  Lock lock(mutex_);
  if (!deadline.is_never()) {
    const Counted counted(limited_);
    leave_to_thread();
    while (!request.is_over() && !deadline.expired()) wait_for_end(lock, request, deadline);
    return request.is_over();
  }
  {
    const Counted counted(waiting_);
    while (!request.is_over())
      if (!driving_ && !failure_.happened())
        drive_for(lock, request);
      else
        wait_for_end(lock, request, deadline);
  }
  leave_to_thread();
  return true;
}

void RequestEngine::wait_until_over(Request& request) {
  Lock lock(mutex_);
  const Counted counted(waiting_);
  over_.wait(lock, [&] { return request.is_over(); });
}

// Until it is over, the deadline, or, without one, until no thread drives.
void RequestEngine::wait_for_end(Lock& lock, Request& request, Deadline deadline) {
  const auto is_due = [&] {
    return request.is_over() || (deadline.is_never() && !driving_ && !failure_.happened());
  };
  try {
    wait_interruptibly(over_, lock, is_due, deadline);
  } catch (const Interrupted&) {
    lock.lock();
    break_off(lock);
    throw;
  }
}

// Drives until the request is over. The thread of a caller.
void RequestEngine::drive_for(Lock& lock, Request& request) {
  driving_ = true;
  try {
    while (!request.is_over() && !failure_.happened()) {
      drive_round(lock);
      if (!WaitInterrupt::is_due()) continue;
      lock.unlock();
      WaitInterrupt::ask();
      lock.lock();
    }
  } catch (const Interrupted&) {
    if (!lock.owns_lock()) lock.lock();
    break_off(lock);
    pass_on();
    throw;
  }
  pass_on();
}

// A caller's thread was interrupted. Others learn that the world is broken.
void RequestEngine::break_off(Lock& lock) {
  fail(lock, {COHORT_PEER, "the world was broken off: a thread that waited in it was interrupted"},
       true);
}

// The driver's role is free.
void RequestEngine::pass_on() {
  driving_ = false;
  if (waiting_ > 0 || closing_) over_.notify_all();
}

// Others wait for a request that this rank has not submitted: gives its other threads time to.
void RequestEngine::rest(Lock& lock) {
  news_.wait_for(lock, rest_, [&] { return !fresh_.empty() || failure_.happened(); });
  rest_ = std::min(rest_ * 2, kLongestRest);
}

std::vector<Task> RequestEngine::take_ready(std::vector<Unit> units) {
  std::vector<Task> tasks;
  tasks.reserve(units.size());
  for (Unit& unit : units) {
    RequestRef request;
    if (unit.ranks[static_cast<std::size_t>(rank_)]) {
      auto node = outstanding_.extract(key_of(unit.kind, unit.name));
      COHORT_CHECK(!node.empty(), "{} '{}' is not outstanding", to_string(unit.kind), unit.name);
      request = std::move(node.mapped());
    }
    tasks.push_back({std::move(unit), std::move(request)});
  }
  return tasks;
}

// With `lock` held, before and after. Throws what interrupted a caller's thread, nothing else.
void RequestEngine::drive_round(Lock& lock) {
  if (fresh_.empty() && negotiator_.is_behind()) rest(lock);
  if (outstanding_.empty() || failure_.happened()) return;
  const std::shared_ptr<Parts> parts = parts_;
  std::vector<Task> tasks;
  try {
    std::vector<SignatureRef> signatures;
    for (const RequestRef& request : fresh_) signatures.push_back(request->signature);
    fresh_.clear();
    has_large_ = false;
    const std::string news = negotiator_.news(signatures);
    ++round_;
    round_since_ = Clock::now();
    in_round_ = true;
    lock.unlock();
    if (options_.on_round) options_.on_round();
    const std::vector<std::string_view>& all = parts->exchange.run(news);
    lock.lock();
    in_round_ = false;
    if (failure_.happened()) return;
    tasks = take_ready(negotiator_.round(all));
    if (!tasks.empty() || !fresh_.empty()) rest_ = kShortestRest;
    if (tasks.empty()) return;
    lock.unlock();
    const Clock::time_point ready = Clock::now();
    parts->executor.run(tasks, [&](Task& task) { finish(task, ready); });
    lock.lock();
  } catch (...) {
    Failure failure = current_failure();
    if (!lock.owns_lock()) lock.lock();
    in_round_ = false;
    const auto peer = static_cast<std::size_t>(failure.peer);
    if (failure.peer >= 0 && peer < options_.world_ranks.size())
      failure.peer = options_.world_ranks[peer];
    if (!failure.message.ends_with('.')) failure.message += '.';
    failure.message += under_way(tasks);
    // Requests were checked when they were submitted.
    if (failure.status == COHORT_INVALID) failure.status = COHORT_INTERNAL;
    const bool interrupted = failure.status == COHORT_INTERRUPTED;
    if (interrupted)
      break_off(lock);
    else
      fail(lock, failure, true);
    for (Task& task : tasks) {
      if (!task.request) continue;
      task.request->failure = failure_;
      lock.unlock();
      end(task.request);
      lock.lock();
    }
    if (interrupted) throw;
  }
}

// For errors, which otherwise name calls that the program did not make.
std::string RequestEngine::under_way(const std::vector<Task>& tasks) const {
  std::vector<std::string> names;
  const auto add = [&](const RequestRef& request) {
    if (request && names.size() < kMostNamed)
      names.push_back(
          fmt::format("{} '{}'", to_string(request->signature->kind), request->signature->name));
  };
  for (const Task& task : tasks) add(task.request);
  for (const auto& [key, request] : outstanding_) add(request);
  return names.empty() ? "" : fmt::format(" Under way here: {}.", fmt::join(names, ", "));
}

void RequestEngine::finish(Task& task, Clock::time_point ready) {
  const RequestRef request = std::move(task.request);
  if (!request) return;
  if (options_.on_end) options_.on_end(*request, ready);
  end(request);
}

// Its results are in place. Without the lock.
void RequestEngine::end(const RequestRef& request) {
  const cohort_done done = request->done;
  void* user = request->user;
  bool awaited = false;
  {
    const Lock lock(mutex_);
    request->end();
    awaited = waiting_ + limited_ > 0;
  }
  if (awaited) over_.notify_all();
  if (done != nullptr) done(user);
}

void RequestEngine::fail(const Failure& failure) {
  Lock lock(mutex_);
  fail(lock, failure, true);
}

// Ends what is outstanding, but for what the driver is about: that ends when it is out of the group.
void RequestEngine::fail(Lock& lock, const Failure& failure, bool abort) {
  const bool is_first = !failure_.happened();
  if (is_first) failure_ = failure;
  std::vector<RequestRef> ended;
  for (auto& [key, request] : std::exchange(outstanding_, {})) {
    request->failure = failure_;
    ended.push_back(std::move(request));
  }
  fresh_.clear();
  news_.notify_all();
  work_.notify_all();
  const std::shared_ptr<Parts> parts = parts_;
  lock.unlock();
  if (abort && parts) parts->group->abort(failure.message);
  for (const RequestRef& request : ended) end(request);
  over_.notify_all();
  if (is_first && options_.on_failure && failure.status != COHORT_CLOSED)
    options_.on_failure(failure);
  lock.lock();
}

void RequestEngine::close(const Failure& failure) {
  Lock lock(mutex_);
  if (std::exchange(closing_, true)) return;
  fail(lock, failure, driving_ || !outstanding_.empty());
  over_.wait(lock, [&] { return !driving_; });
  std::thread thread = std::move(thread_);
  lock.unlock();
  if (thread.joinable()) thread.join();
  lock.lock();
  const std::shared_ptr<Parts> parts = std::move(parts_);
  lock.unlock();
}

collective::Buffer RequestEngine::allocate(std::size_t bytes) {
  std::shared_ptr<Parts> parts;
  {
    const Lock lock(mutex_);
    if (failure_.happened()) throw StatusError(failure_);
    parts = parts_;
  }
  return parts->group->allocate(bytes);
}

std::unique_ptr<collective::Group> RequestEngine::subgroup(std::span<const int> ranks) {
  std::shared_ptr<Parts> parts;
  {
    const Lock lock(mutex_);
    parts = parts_;
  }
  return parts->group->subgroup(ranks);
}

Stalled RequestEngine::look() const {
  const Lock lock(mutex_);
  Stalled stalled;
  for (const auto& [key, request] : outstanding_)
    stalled.requests.push_back(
        {request->signature->kind, request->signature->name,
         negotiator_.missing(request->signature->kind, request->signature->name),
         request->submitted});
  if (in_round_) {
    stalled.round = round_;
    stalled.round_since = round_since_;
  }
  return stalled;
}

bool RequestEngine::is_left_to_thread() const {
  return !driving_ && !failure_.happened() && waiting_ == 0 && !outstanding_.empty();
}

// For callers that have no more to do with what is outstanding. Where no thread starts, the next
// caller that waits drives, or tries again.
void RequestEngine::leave_to_thread() {
  if (!is_left_to_thread()) return;
  try {
    start_thread();
  } catch (const std::exception& error) {
    log::warning("no thread starts for the requests under way: {}", error.what());
    return;
  }
  wake_thread();
}

void RequestEngine::start_thread() {
  if (!thread_.joinable() && !closing_) thread_ = std::thread([this] { run_thread(); });
}

void RequestEngine::wake_thread() {
  if (thread_idles_ || limited_ > 0 || has_large_) work_.notify_one();
}

void RequestEngine::run_thread() {
  Lock lock(mutex_);
  while (!closing_) {
    if (!is_left_to_thread()) {
      thread_idles_ = true;
      work_.wait(lock);
      thread_idles_ = false;
      continue;
    }
    const auto is_urgent = [&] {
      return closing_ || limited_ > 0 || has_large_ || !is_left_to_thread();
    };
    if (!fresh_.empty() && options_.cycle.count() > 0)
      work_.wait_until(lock, fresh_.front()->submitted + options_.cycle, is_urgent);
    if (closing_ || !is_left_to_thread()) continue;
    driving_ = true;
    drive_round(lock);
    pass_on();
  }
}

}  // namespace cohort::capi

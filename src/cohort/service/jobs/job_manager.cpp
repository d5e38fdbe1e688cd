#include "cohort/service/jobs/job_manager.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <limits>
#include <mutex>
#include <set>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/process/process.h"
#include "cohort/base/text.h"
#include "cohort/base/unique_fd.h"
#include "cohort/service/jobs/job_rounds.h"

namespace cohort::service {
namespace {

constexpr std::int64_t kLeastErrorWait = 250;
constexpr std::int64_t kMostErrorWait = 15000;

}  // namespace

Instant Instant::now() {
  static const std::string boot = split(process_identity(::getpid()), ' ').front();
  const auto steady = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration_cast<std::chrono::milliseconds>(steady).count(), utc_now(), boot};
}

struct JobManager::State {
  State(Options given, Engines all) : options(std::move(given)), engines(std::move(all)) {
    if (!wake_fd) throw SystemError("making an event descriptor", errno);
  }

  const Options options;
  const Engines engines;
  UniqueFd wake_fd{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  std::unique_ptr<JobRounds> rounds;  // of the thread; null: to be made anew
  std::thread thread;
  std::atomic<bool> stopping{false};
  std::atomic<bool> unfinished{true};

  mutable std::mutex mutex;  // guards:
  std::set<std::string> woken;
  jobspec::Size free = options.machine;
  std::vector<std::string> line;

  void wake() { ::eventfd_write(wake_fd.get(), 1); }

  void sleep_until(std::int64_t due) {
    const std::int64_t now = Instant::now().steady;
    const int timeout = due == std::numeric_limits<std::int64_t>::max()
                            ? -1
                            : static_cast<int>(std::clamp<std::int64_t>(due - now, 0, 60000));
    std::array<pollfd, 2> fds{
        {{wake_fd.get(), POLLIN, 0}, {rounds ? rounds->watch_fd() : -1, POLLIN, 0}}};
    ::poll(fds.data(), fds.size(), timeout);
    eventfd_t ignored = 0;
    ::eventfd_read(wake_fd.get(), &ignored);
  }
};

JobManager::JobManager(Options options, Engines engines)
    : state_(std::make_unique<State>(std::move(options), std::move(engines))) {}

JobManager::~JobManager() { stop(); }

void JobManager::start() {
  COHORT_CHECK(!state_->thread.joinable(), "the job manager runs already");
  RunStore{state_->options.folders.root};  // what is wrong with it is said here
  Instant::now();                          // with the clocks, too
  state_->thread = std::thread([this] {
    std::int64_t wait = kLeastErrorWait;
    while (!state_->stopping) {
      std::int64_t due = 0;
      try {
        due = pass(Instant::now());
        wait = kLeastErrorWait;
      } catch (const std::exception& error) {
        log::warning("the job manager begins anew in {} ms: {}", wait, error.what());
        due = Instant::now().steady + wait;
        wait = std::min(2 * wait, kMostErrorWait);
      }
      if (!state_->stopping) state_->sleep_until(due);
    }
  });
}

void JobManager::stop() {
  state_->stopping = true;
  state_->wake();
  if (state_->thread.joinable()) state_->thread.join();
}

void JobManager::wake(std::string_view job) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->woken.emplace(job);
  }
  state_->wake();
}

const engine::Engine* JobManager::engine(std::string_view name) const {
  const auto found = state_->engines.find(name);
  return found == state_->engines.end() ? nullptr : found->second.get();
}

jobspec::Size JobManager::machine() const { return state_->options.machine; }

jobspec::Size JobManager::free() const {
  const std::lock_guard lock(state_->mutex);
  return state_->free;
}

std::vector<std::string> JobManager::line() const {
  const std::lock_guard lock(state_->mutex);
  return state_->line;
}

bool JobManager::has_unfinished() const { return state_->unfinished; }

std::int64_t JobManager::pass(const Instant& now) {
  std::set<std::string> woken;
  {
    const std::lock_guard lock(state_->mutex);
    woken.swap(state_->woken);
  }
  try {
    if (!state_->rounds)
      state_->rounds = std::make_unique<JobRounds>(state_->options, state_->engines, now);
    const std::int64_t due = state_->rounds->round(woken, now);
    const std::lock_guard lock(state_->mutex);
    state_->free = state_->rounds->free();
    state_->line = state_->rounds->line(kLine);
    state_->unfinished = state_->rounds->unfinished() > 0 || !state_->woken.empty();
    return due;
  } catch (...) {
    state_->rounds.reset();
    throw;
  }
}

}  // namespace cohort::service

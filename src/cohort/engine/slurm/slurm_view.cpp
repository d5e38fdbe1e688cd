#include "cohort/engine/slurm/slurm_view.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/text.h"
#include "cohort/engine/bounded_command.h"

namespace cohort::engine {
namespace {

using namespace std::string_view_literals;

constexpr std::array kPending = {"PENDING"sv,      "CONFIGURING"sv, "REQUEUED"sv,
                                 "REQUEUE_HOLD"sv, "REQUEUE_FED"sv, "RESV_DEL_HOLD"sv,
                                 "SPECIAL_EXIT"sv};
constexpr std::array kAlive = {"RUNNING"sv,   "COMPLETING"sv, "SUSPENDED"sv, "STOPPED"sv,
                               "SIGNALING"sv, "STAGE_OUT"sv,  "RESIZING"sv};
constexpr std::array kEnded = {"COMPLETED"sv, "FAILED"sv,    "CANCELLED"sv,     "TIMEOUT"sv,
                               "NODE_FAIL"sv, "PREEMPTED"sv, "OUT_OF_MEMORY"sv, "BOOT_FAIL"sv,
                               "DEADLINE"sv,  "REVOKED"sv};

template <std::size_t N>
bool holds(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

SlurmPhase phase_of(std::string_view state) {
  if (holds(kPending, state)) return SlurmPhase::pending;
  if (holds(kAlive, state)) return SlurmPhase::alive;
  if (holds(kEnded, state)) return SlurmPhase::ended;
  return SlurmPhase::unknown_word;
}

std::map<SlurmId, SlurmJob> parse_slurm_jobs(std::string_view text) {
  std::map<SlurmId, SlurmJob> jobs;
  for (const std::string& line : split(text, '\n')) {
    const auto parts = split(line, '|');
    const auto id = parts.size() < 4 ? std::nullopt : parse_unsigned(parts[0]);
    if (!id) continue;
    jobs[*id] = {.state = parts[1],
                 .nodes = parts[2],
                 .reason = escape_controls(join({parts.begin() + 3, parts.end()}, "|")),
                 .phase = phase_of(parts[1])};
  }
  return jobs;
}

SlurmView::~SlurmView() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::optional<SlurmView::Answer> SlurmView::find(SlurmId id, Clock::time_point after) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  wanted_ = true;
  changed_.notify_all();
  if (asked_ <= after) return std::nullopt;
  const auto found = jobs_.find(id);
  return Answer{asked_, found == jobs_.end() ? std::nullopt : std::optional(found->second)};
}

std::string SlurmView::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void SlurmView::work() {
  std::unique_lock lock(mutex_);
  Clock::time_point next{};
  while (!closing_) {
    if (!wanted_ || Clock::now() < next) {
      if (wanted_)
        changed_.wait_until(lock, next);
      else
        changed_.wait(lock);
      continue;
    }
    wanted_ = false;
    lock.unlock();
    const auto asked = Clock::now();
    std::string failure;
    CommandAnswer answer;
    try {
      answer = run_command({"squeue", "--noheader", fmt::format("--user={}", ::geteuid()),
                            "--states=all", fmt::format("--format={}", kSlurmFormat)},
                           kAsk);
      if (!answer.ok()) failure = answer.said();
    } catch (const Error& error) {
      failure = error.message();
    }
    lock.lock();
    if (!failure.empty() && failure_.empty()) log::warning("Slurm does not answer: {}", failure);
    if (failure.empty() && !failure_.empty()) log::info("Slurm answers again");
    failure_ = failure;
    next = Clock::now() + period_;
    if (!failure.empty()) continue;
    asked_ = asked;
    jobs_ = parse_slurm_jobs(answer.output);
  }
}

}  // namespace cohort::engine

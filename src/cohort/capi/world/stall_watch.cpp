#include "cohort/capi/world/stall_watch.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"

namespace cohort::capi {

namespace {

using Clock = Request::Clock;

constexpr std::size_t kMostWarnedOf = 10;  // requests in a warning

std::string note_prefix(int set, std::uint64_t round) { return fmt::format("{}/{}/", set, round); }

std::string ranks_text(const std::vector<std::int32_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() > 1 ? "s" : "", fmt::join(ranks, ", "));
}

}  // namespace

StallWatch::StallWatch(StallOptions options, std::function<std::vector<Watched>()> engines,
                       std::function<void(const Failure&)> give_up)
    : options_(std::move(options)),
      engines_(std::move(engines)),
      give_up_(std::move(give_up)),
      thread_([this] { run(); }) {}

StallWatch::~StallWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  thread_.join();
}

void StallWatch::run() {
  const auto shortest =
      std::min(options_.warning.count() > 0 ? options_.warning : options_.shutdown,
               options_.shutdown.count() > 0 ? options_.shutdown : options_.warning);
  const auto period = std::max(shortest / 4, std::chrono::milliseconds(1));
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, period, [&] { return stopping_; })) {
    lock.unlock();
    for (const Watched& watched : engines_()) look(watched);
    lock.lock();
  }
}

// The ranks of the set that have left no note that they wait in this round.
std::vector<std::int32_t> StallWatch::absent(const Watched& watched, std::uint64_t round) const {
  if (!options_.list || round == 0) return {};
  std::vector<std::int32_t> ranks = watched.ranks;
  const std::string prefix = note_prefix(watched.set, round);
  for (const std::string& note : options_.list(prefix))
    std::erase_if(ranks, [&](std::int32_t rank) { return note == prefix + std::to_string(rank); });
  return ranks;
}

void StallWatch::look(const Watched& watched) try {
  const Stalled stalled = watched.engine->look();
  const auto now = Clock::now();
  const auto own = watched.ranks[static_cast<std::size_t>(watched.engine->rank())];
  // Early, so that the note is there when another rank's warning is due.
  if (stalled.round != 0 && options_.post && posted_[watched.set] != stalled.round &&
      now - stalled.round_since >= options_.warning / 2) {
    options_.post(note_prefix(watched.set, stalled.round) + std::to_string(own));
    posted_[watched.set] = stalled.round;
  }
  std::vector<std::string> lines;
  std::size_t count = 0;
  bool is_over = false;
  Clock::duration longest{};
  std::vector<std::int32_t> late;
  bool asked = false;
  for (const Stalled::One& one : stalled.requests) {
    if (one.kind == Kind::join) continue;  // others may have data for hours
    const auto age = now - one.since;
    const bool warn = options_.warning.count() > 0 && age >= options_.warning;
    const bool stop = options_.shutdown.count() > 0 && age >= options_.shutdown;
    if (!warn && !stop) continue;
    const std::string id = fmt::format("{}/{}/{}/{}", watched.set, static_cast<int>(one.kind),
                                       one.name, one.since.time_since_epoch().count());
    if (!warned_.insert(id).second && !stop) continue;
    if (!asked) late = absent(watched, stalled.round);
    asked = true;
    std::vector<std::int32_t> missing;
    for (const int rank : one.missing)
      missing.push_back(watched.ranks[static_cast<std::size_t>(rank)]);
    if (missing.empty()) missing = late;
    is_over = is_over || stop;
    longest = std::max(longest, age);
    if (++count > kMostWarnedOf) continue;
    lines.push_back(fmt::format("{} '{}' ({})", to_string(one.kind), one.name,
                                missing.empty() ? std::string("not known who is missing")
                                                : ranks_text(missing) + " missing"));
  }
  if (lines.empty()) return;
  if (count > kMostWarnedOf) lines.push_back(fmt::format("{} more", count - kMostWarnedOf));
  const std::string text =
      fmt::format("rank {} has waited {:.1f} s for other ranks to submit {}", own,
                  std::chrono::duration<double>(longest).count(), fmt::join(lines, ", "));
  if (is_over)
    give_up_({COHORT_TIMED_OUT, text + "; the world is broken off, as stall_shutdown_s says"});
  else
    log::warning("{}. Look what those ranks do instead; all ranks must submit the same requests.",
                 text);
} catch (const Error& error) {
  log::debug("the watch for stalled requests: {}", error.message());
}

}  // namespace cohort::capi

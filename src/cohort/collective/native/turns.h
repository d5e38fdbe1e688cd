#pragma once

#include <chrono>
#include <cstdint>

#include "cohort/collective/native/local_channel.h"

namespace cohort::collective {

// How many turns of a pipeline members may be apart.
inline constexpr std::uint64_t kTurnsAhead = 2;

// A pipeline over `windows` windows of the staging buffers, of `stages` stages: what a member puts
// into its buffer for window k in turn k, others read k turns later, kTurnsAhead turns for each
// further stage. turn(number, past_caches) is called for every turn; it does a stage for each
// window that has come to it. Before it, all members have finished the turn kTurnsAhead before: so
// there is one wait a turn. Only others read what a member stages: StagingChoice says whether past
// the caches.
template <typename Turn>
void take_turns(LocalChannel& channel, std::uint64_t windows, std::uint64_t stages,
                Deadline deadline, Turn&& turn) {
  const std::uint64_t turns = windows + (stages - 1) * kTurnsAhead;
  const std::uint64_t first = channel.first_window();
  channel.advance(turns);
  StagingChoice& choice = channel.staging_choice();
  choice.begin_call(windows);
  auto last = std::chrono::steady_clock::now();
  for (std::uint64_t number = 0; number < turns; ++number) {
    if (number >= kTurnsAhead)
      channel.await_all_finished(first + number + 1 - kTurnsAhead, deadline);
    turn(number, choice.past_caches(number));
    channel.finish(first + number + 1);
    if (!choice.trial()) continue;
    const auto now = std::chrono::steady_clock::now();
    choice.took(number, now - last);
    last = now;
  }
}

// Returns when all members have come here.
inline void meet(LocalChannel& channel, Deadline deadline) {
  const std::uint64_t window = channel.first_window();
  channel.advance(1);
  channel.finish(window + 1);
  channel.await_all_finished(window + 1, deadline);
}

}  // namespace cohort::collective

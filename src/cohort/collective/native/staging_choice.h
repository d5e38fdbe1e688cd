#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace cohort::collective {

// Whether this member writes its staging buffers past its caches or into them; which is faster
// depends on where the members' cores are. Where they share a cache, reading out of it saves the
// way to memory. Where they do not, fetching a line that another core has just written takes
// several times longer than from memory. Nothing tells which it is, and a hypervisor may change it
// while the program runs. So some calls try both: their first windows one way, then the other, and
// the quicker one stays until the next trial. Trials follow from what was called, so that all
// members are in the same one at the same time.
// Confined to one thread.
class StagingChoice {
 public:
  using Duration = std::chrono::steady_clock::duration;

  static constexpr std::uint64_t kSettled = 4;   // from this turn on all that is read was cached
  static constexpr std::uint64_t kSwitch = 7;    // first turn past the caches
  static constexpr std::uint64_t kSettled2 = 9;  // from this turn on all that is read was not
  static constexpr std::uint64_t kTrialTurns = 13;
  static constexpr std::uint64_t kCallsBetween = 32;

  void begin_call(std::uint64_t windows) {
    trial_ = windows >= kTrialTurns && calls_++ % kCallsBetween == 0;
    cached_ = past_ = Duration::max();
  }
  bool trial() const { return trial_; }

  bool past_caches(std::uint64_t turn) const {
    return trial_ && turn < kTrialTurns ? turn >= kSwitch : past_caches_;
  }

  // How long a turn of a trial took. The shortest counts: others were interrupted.
  void took(std::uint64_t turn, Duration time) {
    if (turn >= kSettled && turn < kSwitch) cached_ = std::min(cached_, time);
    if (turn >= kSettled2 && turn < kTrialTurns) past_ = std::min(past_, time);
    if (turn + 1 < kTrialTurns) return;
    past_caches_ = past_ <= cached_;
    trial_ = false;
  }

 private:
  bool past_caches_ = true;  // the one that is never very slow
  bool trial_ = false;
  std::uint64_t calls_ = 0;  // that were long enough for a trial
  Duration cached_ = Duration::max();
  Duration past_ = Duration::max();
};

}  // namespace cohort::collective

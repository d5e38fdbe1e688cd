#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::membership {

// Faults on purpose, for tests: COHORT_FAULT=ACTION@rankN:stepN:PHASE[:TIME][,...]
//
//   kill@rank1:step17:reduce         SIGKILL to the own process
//   pause@rank2:step5:forward:800ms  SIGSTOP, and SIGCONT after that time
//   cut@rank0:step9:apply:3s         as if the network were gone for that long
//   slow@rank3:step4:load:200ms      sleeps; the rest of the process goes on
//
// rankN is worker/N, as it was started; rank* is every worker. stepN counts from 0; step* is the
// first that comes. PHASE: load, forward, backward, bucket (bucketN: the Nth, from 0), reduce (all
// gradients are on their way), apply (reduced, not applied), applied, checkpoint, join (a newcomer
// copies the state), view (a new view is formed), report. TIME: 800ms, 3s or 1.5s; kill has none. A
// fault happens once in a process, and only in a process that was not started again (`again` after
// the phase, kill@rank1:step*:join:again: in those only).
struct Fault {
  enum class Action { kill, pause, cut, slow };
  Action action = Action::kill;
  std::optional<int> rank;
  std::optional<std::int64_t> step;
  std::string phase;
  bool again = false;
  std::chrono::milliseconds time{0};
};

// InvalidInput names the part that is wrong, and says what may stand there.
std::vector<Fault> parse_faults(std::string_view text);

// The faults of one process. Not thread-safe but for reach(), which any thread may call.
class FaultPoints {
 public:
  FaultPoints() = default;  // none: reach() costs a branch
  FaultPoints(std::vector<Fault> faults, int rank, int incarnation);

  // Of COHORT_FAULT in this process's environment, as the worker of COHORT_TASK_INDEX; made at the
  // first call, which throws InvalidInput for a COHORT_FAULT that says nothing known.
  static FaultPoints& of_this_process();

  // What `cut` calls with its time; without it, `cut` is refused by reach() with InvalidInput.
  void on_cut(std::function<void(std::chrono::milliseconds)> cut);

  // This worker is at `phase` of `step`: carries out what was asked for there.
  void reach(std::string_view phase, std::int64_t step) {
    if (!faults_.empty()) [[unlikely]]
      carry_out(phase, step);
  }
  // The same at phase `bucketN`.
  void reach_bucket(int bucket, std::int64_t step) {
    if (!faults_.empty()) [[unlikely]]
      carry_out("bucket" + std::to_string(bucket), step);
  }

 private:
  void carry_out(std::string_view phase, std::int64_t step);

  std::vector<Fault> faults_;                   // of this process only
  std::unique_ptr<std::atomic<bool>[]> begun_;  // each of them, once it was reached
  std::function<void(std::chrono::milliseconds)> cut_;
};

}  // namespace cohort::membership

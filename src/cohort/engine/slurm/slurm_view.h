#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

// What Slurm says of this user's jobs.
namespace cohort::engine {

using SlurmId = std::uint64_t;

// pending: it waits, also once more after a preemption. unknown_word: a state that this version has
// not heard of, which decides nothing.
enum class SlurmPhase { pending, alive, ended, unknown_word };

struct SlurmJob {
  std::string state;   // Slurm's word: "RUNNING", "NODE_FAIL"
  std::string nodes;   // "n[1-3]"
  std::string reason;  // why it waits, Slurm's word: "Resources"; else "None"
  SlurmPhase phase = SlurmPhase::unknown_word;
};

SlurmPhase phase_of(std::string_view state);

// Lines of `squeue --format=kSlurmFormat`; those that have another form are left out. The format is
// the same from Slurm 2.x on; --json changes between releases. Tried with 22.05.
inline constexpr const char* kSlurmFormat = "%A|%T|%N|%r";
std::map<SlurmId, SlurmJob> parse_slurm_jobs(std::string_view text);

// Asks squeue once for all jobs of this user, in a thread of its own, and only while a caller wants
// to know: a controller that hangs holds no caller up, and a thousand jobs cost it one question.
//
// Threads: any. The thread ends with the object, which waits for a question under way (kAsk).
class SlurmView {
 public:
  using Clock = std::chrono::steady_clock;

  struct Answer {
    Clock::time_point asked;      // the question was put then
    std::optional<SlurmJob> job;  // nothing: Slurm does not know it (any more)
  };

  static constexpr std::chrono::seconds kAsk{10};

  explicit SlurmView(std::chrono::milliseconds period) : period_(period) {}
  ~SlurmView();
  SlurmView(const SlurmView&) = delete;
  SlurmView& operator=(const SlurmView&) = delete;

  // The newest that is known of the job; nothing where Slurm has not answered since `after`. Asks
  // again, without waiting, when the answer is older than the period.
  std::optional<Answer> find(SlurmId id, Clock::time_point after);

  // Why the last question had no answer; "": it had one.
  std::string failure() const;

 private:
  void work();

  const std::chrono::milliseconds period_;
  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::thread thread_;
  bool wanted_ = false;
  bool closing_ = false;
  Clock::time_point asked_{};
  std::map<SlurmId, SlurmJob> jobs_;
  std::string failure_;
};

}  // namespace cohort::engine

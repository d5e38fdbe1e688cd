#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "cohort/collective/backend/peer.h"

namespace cohort::collective {

enum class FailureKind : std::uint32_t {
  died,
  left,
  timed_out,
  mismatch,
  aborted,
  protocol,
  refused
};

// Why a group is broken. The first one counts; every rank throws it, then and later.
struct Failure {
  FailureKind kind = FailureKind::aborted;
  int culprit = -1;  // rank, or -1
  std::string text;  // one sentence that names the culprit
  std::string during;

  // PeerError, TimeoutError, MismatchError, ProtocolError or AuthError, as the kind says. `task` is
  // the culprit's, where it is known; the launcher learns of a lost one (last_word.h).
  [[noreturn]] void raise(const std::string& task = {}) const;
};

// A Failure in shared memory: all zeros is "none". Written once, by the rank that claims it first.
class FailureRecord {
 public:
  // False when another rank was first.
  bool write(const Failure& failure);
  bool present() const { return state_.load() == kWritten; }
  Failure read() const;  // only when present()

 private:
  static constexpr std::uint32_t kWriting = 1;
  static constexpr std::uint32_t kWritten = 2;
  std::atomic<std::uint32_t> state_;
  FailureKind kind_;
  std::int32_t culprit_;
  char text_[768];
  char during_[160];
};

}  // namespace cohort::collective

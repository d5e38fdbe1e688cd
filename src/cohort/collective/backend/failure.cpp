#include "cohort/collective/backend/failure.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "cohort/base/error.h"
#include "cohort/base/process/last_word.h"
#include "cohort/collective/backend/call.h"

namespace cohort::collective {

namespace {

template <std::size_t kSize>
void copy_text(char (&to)[kSize], const std::string& from) {
  const std::size_t length = std::min(from.size(), kSize - 1);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

// Nothing for a failure that is no peer's absence.
std::optional<LastWord::Loss> loss_of(FailureKind kind) {
  switch (kind) {
    case FailureKind::died:
      return LastWord::Loss::died;
    case FailureKind::left:
      return LastWord::Loss::left;
    case FailureKind::aborted:
      return LastWord::Loss::aborted;
    case FailureKind::timed_out:
      return LastWord::Loss::late;
    case FailureKind::mismatch:
    case FailureKind::protocol:
    case FailureKind::refused:
      break;
  }
  return std::nullopt;
}

}  // namespace

void Failure::raise(const std::string& task) const {
  ErrorContext context{.during = during, .peer = task, .peer_rank = culprit};
  if (const auto loss = loss_of(kind); loss && !task.empty())
    note_lost_peer(task, *loss, during, Error(text, context).what());
  switch (kind) {
    case FailureKind::timed_out:
      context.advice =
          "Look whether that rank is stopped, stuck or slower than the deadline allows.";
      throw TimeoutError(text, context);
    case FailureKind::mismatch:
      context.advice = "Make every rank call the same collectives in the same order.";
      throw MismatchError(text, context);
    case FailureKind::protocol:
      throw ProtocolError(text, context);
    case FailureKind::refused:
      context.advice = "Give every task of the job the same secret.";
      throw AuthError(text, context);
    case FailureKind::died:
      context.advice = "Read that rank's log for the cause.";
      throw PeerError(text, context);
    case FailureKind::left:
    case FailureKind::aborted:
      break;
  }
  throw PeerError(text, context);
}

bool FailureRecord::write(const Failure& failure) {
  std::uint32_t none = 0;
  if (!state_.compare_exchange_strong(none, kWriting)) return false;
  kind_ = failure.kind;
  culprit_ = failure.culprit;
  copy_text(text_, failure.text);
  copy_text(during_, failure.during);
  state_.store(kWritten);
  return true;
}

Failure FailureRecord::read() const { return {kind_, culprit_, text_, during_}; }

}  // namespace cohort::collective

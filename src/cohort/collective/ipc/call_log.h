#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cohort/collective/backend/call.h"
#include "cohort/collective/backend/failure.h"
#include "cohort/collective/ipc/shared_block.h"

namespace cohort::collective::ipc {

// Notices that ranks make different calls, without waiting for any of them: each writes what it
// calls into the shared block, and whichever comes later compares. A difference to a peer that is
// more than SharedBlock::kLoggedCalls calls ahead or behind goes unnoticed.
// Threads: confined to one thread.
class CallLog {
 public:
  CallLog(std::shared_ptr<SharedBlock> block, int rank, int size);

  // Numbers the call, writes it down.
  void add(Call& call);
  // The first difference among calls that both this rank and a peer have made.
  std::optional<Failure> difference();

 private:
  std::optional<Failure> compare(std::uint64_t call, int peer) const;
  Call call_of(int rank, std::uint64_t call) const;

  std::shared_ptr<SharedBlock> block_;
  int rank_;
  int size_;
  std::uint64_t calls_ = 0;
  std::vector<std::uint64_t> compared_;  // calls, by peer
};

}  // namespace cohort::collective::ipc

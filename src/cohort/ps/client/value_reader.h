#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/ps/client/client_layout.h"
#include "cohort/ps/client/client_types.h"
#include "cohort/ps/client/server_links.h"
#include "cohort/ps/state/segment_reader.h"

namespace cohort::ps {

// Values, from a server's memory or from what was received, to where the caller wants them.
//
// Threads: one at a time. Ownership: `links` must outlive it. Failure: as Client::read().
class ValueReader {
 public:
  ValueReader(ServerLinks& links, const ClientLayout& layout);

  // `before`: see Pull.
  void read(std::span<const BlockRun> runs, std::uint64_t clock, std::uint64_t before,
            Deadline deadline);
  void read_after(std::span<const BlockRun> runs, std::uint64_t finished, Deadline deadline);

  // For runs that are the same in every step. Valid until the next call.
  const RunPlan& plan_of(std::span<const BlockRun> runs);
  // Copies what the plan wants of these slices; not locked while it copies.
  void copy(ServerLinks::Lock& lock, const RunPlan& plan, std::span<const int> slices);

 private:
  std::uint64_t copy_slice(const RunPlan& plan, int slice) const;  // the version; 0: as received
  void copy_received(const SliceLocation& placed, std::span<const ReadRun> runs) const;

  ServerLinks& links_;
  const ClientLayout& layout_;
  RunPlan plan_;
  std::vector<std::shared_ptr<const SegmentReader>> readers_;  // by server, as of the last copy
  std::vector<std::pair<int, std::uint64_t>> copied_;          // slices and their versions
};

}  // namespace cohort::ps

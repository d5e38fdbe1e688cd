#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cohort/collective/group.h"

namespace cohort::capi {

// One round: every rank's news to all. 256 bytes a rank, in one all_gather; where the news of a rank
// do not fit there, everyone's follow in a second call.
// Threads: confined to one at a time. Failure: as the group's calls, with no deadline; InvalidInput
// for own news of more than `most` bytes, before any are sent, ProtocolError for another rank's.
class Exchange {
 public:
  static constexpr std::size_t kMost = std::size_t{256} << 20;

  explicit Exchange(collective::Group& group, std::size_t most = kMost);

  // Element r is rank r's; valid until the next call.
  const std::vector<std::string_view>& run(const std::string& news);

 private:
  static constexpr std::size_t kSlot = 256;

  collective::Group& group_;
  const std::size_t most_;
  std::string own_, all_, rest_;
  std::vector<std::string_view> news_;
};

}  // namespace cohort::capi

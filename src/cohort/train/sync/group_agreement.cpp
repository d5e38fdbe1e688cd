#include "cohort/train/sync/group_agreement.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <span>

#include "cohort/base/error.h"
#include "cohort/parallel/text_exchange.h"

namespace cohort::train {

void GroupAgreement::agree(const nlohmann::json& values) {
  if (replica_.size == 1) return;
  auto texts = parallel::gather_texts(*replica_.group, values.dump());
  auto first = nlohmann::json::parse(texts.front());
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    auto other = nlohmann::json::parse(texts[rank]);
    for (const auto& [name, value] : first.items())
      if (value != other.at(name))
        throw InvalidInput(
            fmt::format("{} is {} on replica 0 and {} on replica {}", name, value.dump(),
                        other.at(name).dump(), rank),
            {.advice = "Start all workers with the same options, and with the whole data "
                       "set: a Trainer splits every batch itself."});
  }
}

std::string GroupAgreement::broadcast_text(const std::function<std::string()>& make) {
  std::string text = replica_.is_first() ? make() : std::string();
  return replica_.size > 1 ? parallel::broadcast_text(*replica_.group, text, 0) : text;
}

AgreedRequests GroupAgreement::agree_on_requests(const CallbackRequests& requests) {
  bool flag = false;
  return agree_on_requests(requests, flag);
}

AgreedRequests GroupAgreement::agree_on_requests(const CallbackRequests& requests, bool& flag) {
  constexpr std::int64_t kInterrupt = 1, kStop = 2;
  const std::int64_t stop = requests.stop.empty() ? 0 : requests.interrupts() ? kInterrupt : kStop;
  std::array<std::int64_t, 3> all{stop, requests.broadcast, flag};
  if (replica_.size > 1)
    replica_.group->all_reduce(
        std::span<std::int64_t>(all),
        {.op = collective::ReduceOp::maximum, .deadline = Deadline::after(timeout_)});
  flag = all[2] != 0;
  return {.stop = all[0] != 0,
          .interrupted = all[0] == kInterrupt,
          .broadcast = all[1] != 0 && replica_.size > 1};
}

}  // namespace cohort::train

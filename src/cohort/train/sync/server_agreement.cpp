#include "cohort/train/sync/server_agreement.h"

#include <nlohmann/json.hpp>

#include "cohort/base/error.h"

namespace cohort::train {

// The servers compare it, as a part of the model's description.
void ServerAgreement::agree(const nlohmann::json& values) {
  if (!steps_.has_begun()) steps_.set_agreement(values.dump());
}

std::string ServerAgreement::broadcast_text(const std::function<std::string()>& make) {
  if (steps_.has_begun())
    throw InvalidInput(
        "resuming a checkpoint after training has begun does not go with the strategy "
        "parameter_server",
        {.advice = "Resume in the first fit()."});
  parallel::Servers& servers = steps_.servers();
  if (servers.flags().dry_run) return {};
  if (!steps_.replica().is_first()) return servers.read_note("start", steps_.deadline());
  // A chief that was started anew finds its servers in the middle of the training and its own note
  // of how it began. Servers that recovered their model from disk have no such note in this job's
  // store: the checkpoint then only tells how the training began, and begin() goes on from theirs.
  if (steps_.client().servers_have_model())
    if (auto note = servers.find_note("start", steps_.deadline())) return *note;
  const std::string text = make();
  servers.leave_note("start", text, steps_.deadline());
  return text;
}

AgreedRequests ServerAgreement::agree_on_requests(const CallbackRequests& requests) {
  steps_.request_stop(requests.stop);
  const CallbackRequests agreed{.stop = steps_.stop_reason()};
  return {.stop = !agreed.stop.empty(), .interrupted = agreed.interrupts(), .broadcast = false};
}

}  // namespace cohort::train

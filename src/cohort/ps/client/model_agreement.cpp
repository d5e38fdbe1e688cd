#include "cohort/ps/client/model_agreement.h"

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/ps/model/model_spec_difference.h"
#include "cohort/ps/model/model_spec_text.h"

namespace cohort::ps {

namespace {

// Servers without a model beside servers that are in the middle of a training have lost theirs. One
// that is out of reach is not among them: it may have been killed just now, and comes back with it.
void check_can_initialise_locked(const ServerLinks& links, const InitialState* initial) {
  const ClientState& state = links.state();
  int without = -1;
  int trained = -1;
  const std::uint64_t first = initial != nullptr ? initial->first_step : 0;
  for (int server = 0; server < links.count(); ++server) {
    if (links.at(server).lacks_model)
      without = server;
    else if (links.at(server).finished > first)
      trained = server;
  }
  if (without < 0) return;
  if (trained >= 0)
    throw Error(fmt::format("{} has no model, and {} is {} steps into a training",
                            state.server_name(without), state.server_name(trained),
                            links.at(trained).finished),
                {.task = state.worker_name(),
                 .advice = "Choose a durability of `process` or more; start the job again from a "
                           "checkpoint."});
  if (initial == nullptr)
    throw InvalidInput(
        fmt::format("{} has no model, and the chief gives it none", state.server_name(without)),
        {.task = state.worker_name()});
}

void wait_until_ready(ServerLinks& links, Deadline deadline) {
  const bool chief = links.state().options.chief;
  ServerLinks::Lock lock(links.state().mutex);
  links.wait(
      lock, deadline, "agreeing on the model",
      [&] { return links.all([](const LinkState& link) { return link.ready; }); },
      [&](int server) -> std::string {
        if (links.at(server).ready) return "";
        return chief ? "has not taken the model yet" : "has no model yet: it waits for the chief";
      });
}

void check_model_locked(const ServerLinks& links) {
  const ClientState& state = links.state();
  for (int server = 0; server < links.count(); ++server) {
    const std::string& theirs = links.at(server).spec;
    if (theirs == state.layout->spec_text) continue;
    const std::string clause = difference(parse_model_spec(theirs), fmt::format("ps/{}", server),
                                          state.layout->spec, state.worker_name());
    throw InvalidInput(
        fmt::format("this worker's model is not the job's: {}",
                    clause.empty() ? "the texts of the two differ" : clause),
        {.task = state.worker_name(),
         .advice = "Give all workers the same program and flags, those of the training that the "
                   "servers went on with if the output folder has one; or take another folder."});
  }
}

}  // namespace

std::uint64_t agree_on_model(ServerLinks& links, const InitialState* initial, Deadline deadline) {
  ClientState& state = links.state();
  if (state.options.chief) {
    std::lock_guard lock(state.mutex);
    check_can_initialise_locked(links, initial);
    state.initial = initial;
  }
  links.wake();
  std::exception_ptr failed;
  try {
    wait_until_ready(links, deadline);
  } catch (...) {
    failed = std::current_exception();
  }
  if (initial != nullptr && state.options.chief)
    links.run_on_loop([&] {
      std::lock_guard lock(state.mutex);
      state.initial = nullptr;
    });
  if (failed) std::rethrow_exception(failed);

  std::lock_guard lock(state.mutex);
  check_model_locked(links);
  state.begun = true;
  std::uint64_t finished = UINT64_MAX;
  for (int server = 0; server < links.count(); ++server)
    finished = std::min(finished, links.at(server).finished);
  return finished;
}

}  // namespace cohort::ps

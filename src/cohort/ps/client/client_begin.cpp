// How a worker enters the training: the chief's model goes to the servers that have none, and all
// agree on what it is.
#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/ps/client/client_impl.h"
#include "cohort/ps/model/model_spec_difference.h"
#include "cohort/ps/model/model_spec_text.h"

namespace cohort::ps {

std::uint64_t Client::Impl::begin(const ModelSpec& spec, const InitialState* initial,
                                  Deadline deadline) {
  COHORT_CHECK(layout_ == nullptr, "begin() is called once");
  layout_ = std::make_shared<const ClientLayout>(spec, core_.options.worker, core_.servers());
  {
    std::lock_guard lock(core_.mutex);
    core_.layout = layout_;
    StepState& step = core_.step;
    step.pushed.resize(layout_->slices.size());
    step.answered.resize(layout_->slices.size());
    step.version.resize(layout_->slices.size());
    step.ready.reserve(layout_->slices.size());
    step.servers.resize(core_.links.size());
    for (auto& server : step.servers) server.tables.resize(spec.tables.size());
    for (const auto& link : core_.links) link->set_layout_locked();
    if (core_.options.chief) check_can_initialise_locked(initial);
    if (core_.options.chief) core_.initial = initial;
  }
  initialise(initial, deadline);

  std::lock_guard lock(core_.mutex);
  check_model_locked();
  core_.begun = true;
  std::uint64_t finished = UINT64_MAX;
  for (const auto& link : core_.links) {
    finished = std::min(finished, link->finished_locked());
    readers_.push_back(link->reader_locked());
  }
  return finished;
}

void Client::Impl::initialise(const InitialState* initial, Deadline deadline) {
  core_.wake();
  std::exception_ptr failed;
  try {
    std::unique_lock lock(core_.mutex);
    core_.wait(
        lock, deadline, "agreeing on the model",
        [&] {
          return std::all_of(core_.links.begin(), core_.links.end(),
                             [](const auto& link) { return link->is_ready_locked(); });
        },
        [&](int server) -> std::string {
          if (core_.links[static_cast<std::size_t>(server)]->is_ready_locked()) return "";
          return core_.options.chief ? "has not taken the model yet"
                                     : "has no model yet: it waits for the chief";
        });
  } catch (...) {
    failed = std::current_exception();
  }
  if (initial != nullptr && core_.options.chief)
    core_.run_on_loop([&] {
      std::lock_guard lock(core_.mutex);
      core_.initial = nullptr;
    });
  if (failed) std::rethrow_exception(failed);
}

// Servers without a model beside servers that are in the middle of a training have lost theirs. One
// that is out of reach is not among them: it may have been killed just now, and comes back with it.
void Client::Impl::check_can_initialise_locked(const InitialState* initial) {
  int without = -1;
  int trained = -1;
  const std::uint64_t first = initial != nullptr ? initial->first_step : 0;
  for (int server = 0; server < core_.servers(); ++server) {
    const Link& link = *core_.links[static_cast<std::size_t>(server)];
    if (link.lacks_model_locked())
      without = server;
    else if (link.finished_locked() > first)
      trained = server;
  }
  if (without < 0) return;
  if (trained >= 0)
    throw Error(fmt::format("{} has no model, and {} is {} steps into a training",
                            core_.server_name(without), core_.server_name(trained),
                            core_.links[static_cast<std::size_t>(trained)]->finished_locked()),
                {.task = core_.worker_name(),
                 .advice = "Choose a durability of `process` or more; start the job again from a "
                           "checkpoint."});
  if (initial == nullptr)
    throw InvalidInput(
        fmt::format("{} has no model, and the chief gives it none", core_.server_name(without)),
        {.task = core_.worker_name()});
}

void Client::Impl::check_model_locked() {
  for (int server = 0; server < core_.servers(); ++server) {
    const std::string& theirs = core_.links[static_cast<std::size_t>(server)]->spec_locked();
    if (theirs == layout_->spec_text) continue;
    const std::string clause = difference(parse_model_spec(theirs), fmt::format("ps/{}", server),
                                          layout_->spec, core_.worker_name());
    throw InvalidInput(
        fmt::format("this worker's model is not the job's: {}",
                    clause.empty() ? "the texts of the two differ" : clause),
        {.task = core_.worker_name(),
         .advice = "Give all workers the same program and flags, those of the training that the "
                   "servers went on with if the output folder has one; or take another folder."});
  }
}

}  // namespace cohort::ps

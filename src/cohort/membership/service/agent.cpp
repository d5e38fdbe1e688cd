#include "cohort/membership/service/agent.h"

#include "cohort/membership/service/agent_loop.h"

namespace cohort::membership {

Agent::Agent(cluster::StoreClient& store, std::string prefix, MemberInfo self)
    : loop_(std::make_unique<AgentLoop>(store, std::move(prefix), std::move(self))) {}

Agent::~Agent() = default;

void Agent::on_drop(std::function<void(const std::string& why)> drop) {
  loop_->on_drop(std::move(drop));
}

View Agent::enter(const std::string& agreement, Deadline deadline) {
  return loop_->enter(agreement, deadline);
}

View Agent::next_view(std::int64_t stage, const std::string& why, Deadline deadline) {
  return loop_->next_view(stage, why, deadline);
}

std::chrono::nanoseconds Agent::lease() const { return loop_->lease(); }
std::uint64_t Agent::planned_change() const noexcept { return loop_->planned_change(); }

void Agent::expect_commit(Deadline deadline) {
  if (!loop_->may_commit()) [[unlikely]]
    loop_->wait_to_commit(deadline);
}

void Agent::committed(std::int64_t stage, std::int64_t step, double samples_per_second) noexcept {
  loop_->committed(stage, step, samples_per_second);
}

void Agent::resumed(std::int64_t step, std::chrono::nanoseconds stood_still, bool redone) {
  loop_->resumed(step, stood_still, redone);
}

bool Agent::finish(std::int64_t stage, Deadline deadline) { return loop_->finish(stage, deadline); }

void Agent::leave(Deadline deadline) { loop_->leave(deadline); }

MemberInfo Agent::info() const { return loop_->info(); }

void Agent::cut_off(std::chrono::milliseconds duration) { loop_->cut_off(duration); }

}  // namespace cohort::membership

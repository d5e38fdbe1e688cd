#include "cohort/membership/group/elastic_membership.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/process/wait_interrupt.h"
#include "cohort/base/text.h"
#include "cohort/collective/form.h"
#include "cohort/transport/shm/carried_memory.h"
#include "cohort/transport/store_rendezvous.h"

namespace cohort::membership {

namespace {

// Removing what old views left behind is housekeeping: it must not hold up training.
constexpr auto kSweepLimit = std::chrono::seconds(1);
// A busy machine may keep a member from beating for a while.
constexpr std::chrono::milliseconds kShortestSilence{1000};

std::string group_id(std::uint64_t view) { return fmt::format("view-{}", view); }

}  // namespace

struct ElasticMembership::State {
  State(cluster::Session& s, const collective::NetworkOptions& n, MemberInfo self,
        cluster::ElasticLimits l)
      : session(s),
        network(n),
        limits(l),
        agent(s.store(), s.key("membership"), std::move(self)),
        rendezvous(std::make_shared<transport::StoreRendezvous>(s.store(), s.key("collective"))) {
    if (!network.secret) network.secret = session.secret();
    agent.on_drop([this](const std::string& why) { drop(why); });
  }

  void drop(const std::string& why);  // on the agent's thread
  bool is_over();                     // the view that was returned last
  // The group, if there is one. With a reason it is broken for the others, too; without one they
  // may still be on their way out of its last call.
  void give_up(const std::string& why) noexcept;
  void settle(View next, Deadline deadline);
  std::unique_ptr<collective::Group> form(const View& next, int own, Deadline deadline);
  void sweep(std::uint64_t current);

  cluster::Session& session;
  collective::NetworkOptions network;
  cluster::ElasticLimits limits;
  // For the next view's group. It is given up before this worker says that it is at rest.
  std::shared_ptr<transport::shm::CarriedMemory> carried =
      std::make_shared<transport::shm::CarriedMemory>();

  std::mutex mutex;  // guards `group` against the agent's thread
  std::unique_ptr<collective::Group> group;
  // Some view was dropped. Perhaps the one before this one: is_over() knows.
  std::atomic<bool> dropped = false;

  View view;
  std::atomic<int> rank = -1;  // in `view`; -1: not a member
  std::atomic<int> size = 0;
  bool has_left = false;

  Agent agent;  // its thread uses what stands above
  std::shared_ptr<transport::StoreRendezvous> rendezvous;
};

void ElasticMembership::State::drop(const std::string& why) {
  const std::lock_guard lock(mutex);
  dropped = true;
  if (group) group->abort(why);
}

bool ElasticMembership::State::is_over() {
  if (!dropped) return false;
  try {
    agent.expect_commit(Deadline::after({}));
    return false;
  } catch (const Error&) {
    return true;
  }
}

void ElasticMembership::State::give_up(const std::string& why) noexcept {
  std::unique_ptr<collective::Group> old;
  {
    const std::lock_guard lock(mutex);
    old = std::move(group);
  }
  if (old && !why.empty()) old->abort(why);
}

std::unique_ptr<collective::Group> ElasticMembership::State::form(const View& next, int own,
                                                                  Deadline deadline) {
  collective::FormOptions options{.id = group_id(next.number),
                                  .authenticate = {},
                                  .cancelled = [this] { return is_over(); },
                                  .carried = carried,
                                  .connect = {}};
  // A peer that swallows what members send each other is noticed as soon as a lost one is.
  collective::NetworkOptions watched = network;
  watched.silence =
      std::max(kShortestSilence, std::chrono::ceil<std::chrono::milliseconds>(agent.lease()));
  collective::use_network(options, watched);
  const MemberInfo& self = next.members[static_cast<std::size_t>(own)].info;
  return collective::form_group(
      {.rank = own, .size = next.size(), .task = self.task, .host = self.host, .host_identity = {}},
      rendezvous, options, deadline);
}

// Forms the group of `next`, or of the first view after it that lasts long enough.
void ElasticMembership::State::settle(View next, Deadline deadline) {
  while (true) {
    const int own = next.rank_of(agent.info().id());
    COHORT_CHECK(own >= 0, "{} is not in its view {}", agent.info().id(), next.number);
    try {
      auto formed = form(next, own, deadline);
      const std::lock_guard lock(mutex);
      group = std::move(formed);
    } catch (const InvalidInput&) {
      throw;
    } catch (const AuthError&) {
      throw;
    } catch (const Interrupted&) {
      throw;
    } catch (const Error& error) {
      if (deadline.expired()) throw;
      log::info("view {} did not begin: {}", next.number, error.what());
      const std::int64_t stage = next.members[static_cast<std::size_t>(own)].stage;
      next = agent.next_view(stage, error.what(), deadline);
      continue;
    }
    // A drop while the group was formed, after the last look.
    if (is_over()) group->abort("its view is over");
    if (own == 0) sweep(next.number);
    view = std::move(next);
    rank = own;
    size = view.size();
    return;
  }
}

// What is left of older views' groups in the store.
void ElasticMembership::State::sweep(std::uint64_t current) {
  const Deadline limit = Deadline::after(kSweepLimit);
  const std::string prefix = session.key("collective") + "/view-";
  try {
    for (const auto& [key, value] : session.store().list(prefix, limit)) {
      const auto number = parse_unsigned(split(key.substr(prefix.size()), '/').front());
      if (number && *number < current) session.store().remove(key, limit);
    }
  } catch (const Error& error) {
    log::debug("old groups stay in the store: {}", error.message());
  }
}

ElasticMembership::ElasticMembership(cluster::Session& session,
                                     const collective::NetworkOptions& network, MemberInfo self,
                                     cluster::ElasticLimits limits)
    : state_(std::make_unique<State>(session, network, std::move(self), limits)) {}

ElasticMembership::~ElasticMembership() = default;

const cluster::ElasticLimits& ElasticMembership::limits() const { return state_->limits; }
const cluster::Role& ElasticMembership::role() const { return state_->session.role(); }
Agent& ElasticMembership::agent() { return state_->agent; }

void ElasticMembership::enter(const std::string& agreement, Deadline deadline) {
  state_->settle(state_->agent.enter(agreement, deadline), deadline);
}

void ElasticMembership::change(std::int64_t stage, const std::string& why, Deadline deadline) {
  state_->give_up(why);
  state_->settle(state_->agent.next_view(stage, why, deadline), deadline);
}

bool ElasticMembership::is_member() const { return state_->rank >= 0; }
const View& ElasticMembership::view() const { return state_->view; }
int ElasticMembership::rank() const { return state_->rank; }
int ElasticMembership::size() const { return state_->size; }

collective::Group& ElasticMembership::group() const {
  if (!state_->group && state_->has_left)
    throw InvalidInput("this worker has left its elastic job",
                       {.advice = "Call leave() after the last collective."});
  if (!state_->group)
    throw InvalidInput(
        "an elastic job has a group only while it trains, since workers come and go",
        {.advice = "Use the group inside Trainer::fit() or elastic::run(), which form it anew for "
                   "every view."});
  return *state_->group;
}

void ElasticMembership::abort(const std::string& why) noexcept {
  const std::lock_guard lock(state_->mutex);
  if (state_->group) state_->group->abort(why);
}

void ElasticMembership::leave(Deadline deadline) {
  state_->has_left = true;
  state_->give_up({});
  state_->carried->reset();
  state_->agent.leave(deadline);
}

}  // namespace cohort::membership

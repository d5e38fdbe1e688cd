#include "model_worker.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulation.h"

namespace cohort::membership::simulator {

using std::chrono::microseconds;
using std::chrono::milliseconds;

ModelWorker::ModelWorker(Simulation& simulation, int node, MemberInfo info)
    : simulation_(simulation), node_(node), member_(std::move(info)) {}

bool ModelWorker::paused() const { return simulation_.clock().now() < paused_until_; }

void ModelWorker::post(std::function<void()> event) {
  if (!alive_) return;
  if (paused() || !deferred_.empty()) {
    deferred_.push_back(std::move(event));
    return;
  }
  event();
}

void ModelWorker::pause(Time until) {
  if (!alive_ || until <= paused_until_) return;
  paused_until_ = until;
  simulation_.clock().at(until, [this] {
    if (!alive_ || paused()) return;
    while (!deferred_.empty() && alive_) {
      const auto event = std::move(deferred_.front());
      deferred_.pop_front();
      event();
    }
  });
}

void ModelWorker::hang(Time until) {
  hung_until_ = std::max(hung_until_, until);
  simulation_.clock().at(until, [this] { post([this] { react(); }); });
}

void ModelWorker::start() {
  member_.ready(simulation_.clock().now(), "{}");
  react();
}

void ModelWorker::receive(const Message& message) {
  if (message.kind == MessageKind::lease && message.member == id()) {
    const auto beat = beats_.find(message.number);
    if (beat != beats_.end()) lease_end_ = std::max(lease_end_, beat->second + message.duration);
  }
  member_.handle(simulation_.clock().now(), message);
  react();
}

void ModelWorker::flush() {
  for (const Message& message : member_.take_messages()) {
    if (message.kind == MessageKind::beat) beats_[message.number] = simulation_.clock().now();
    simulation_.send_to_coordinator(*this, message);
  }
}

void ModelWorker::schedule_tick() {
  const auto next = member_.next_tick();
  if (!next || tick_at_ > simulation_.clock().now()) return;
  tick_at_ = std::max(*next, simulation_.clock().now() + Time(1));
  simulation_.clock().at(tick_at_, [this] {
    post([this] {
      member_.tick(simulation_.clock().now());
      react();
    });
  });
}

// Something has happened: what follows for this worker?
void ModelWorker::react() {
  const Time now = simulation_.clock().now();
  switch (member_.state()) {
    case Member::State::training:
      if (now < hung_until_) break;
      if (member_.view().number > working_) {
        begin_view();
      } else if (member_.must_drop() && !at_rest_ && !going_to_rest_) {
        going_to_rest_ = true;
        later(microseconds(10), milliseconds(4), [this] { rest(""); });
      } else if (finished_ && member_.proposal() > working_ && !at_rest_) {
        rest("");
      } else {
        try_commit();
      }
      break;
    case Member::State::evicted:
      if (simulation_.tracing()) simulation_.trace(id() + " knows that it was evicted");
      committed_ = kNoState;
      last_ = Record();
      working_ = 0;
      at_rest_ = true;
      beats_.clear();
      lease_end_ = Time(0);
      member_.rejoin(now);
      break;
    case Member::State::dismissed:
    case Member::State::over:
      alive_ = false;
      break;
    default:
      break;
  }
  flush();
  schedule_tick();
}

void ModelWorker::later(Time least, Time most, std::function<void()> what) {
  const Time at =
      std::max(simulation_.clock().now(), hung_until_) + simulation_.random().between(least, most);
  simulation_.clock().at(at, [this, view = working_, what = std::move(what)] {
    post([this, view, what] {
      if (working_ != view || at_rest_) return;
      if (simulation_.clock().now() < hung_until_) return later(Time(0), Time(0), what);
      what();
      react();
    });
  });
}

void ModelWorker::begin_view() {
  const View& view = member_.view();
  simulation_.checks().entered(
      member_.info().task + "." + std::to_string(member_.info().incarnation), view.number);
  working_ = view.number;
  rank_ = view.rank_of(id());
  at_rest_ = going_to_rest_ = writing_ = finished_ = resumed_ = false;
  contributions_.clear();
  must_copy_ = view.is_behind(rank_);
  first_stage_ = std::max<std::int64_t>(view.stage(), 0);
  if (view.stage() == kNoState) {
    committed_ = 0;
    state_ = simulation_.checks().initial_state();
    last_ = Record();
  }
  if (simulation_.plant() == Plant::learners_skip_copying && must_copy_) {
    must_copy_ = false;
    committed_ = first_stage_;
  }
  if (simulation_.tracing())
    simulation_.trace(fmt::format("{} begins view {} as rank {} of {} with {} of {} stages", id(),
                                  working_, rank_, view.size(), committed_, first_stage_));
  if (rank_ == view.donor() && simulation_.plant() != Plant::learners_wait)
    for (int rank = 0; rank < view.size(); ++rank)
      if (view.is_behind(rank))
        simulation_.send_to_worker(*this, view.members[static_cast<std::size_t>(rank)].info.id(),
                                   [number = working_, copy = StateCopy{committed_, state_, last_}](
                                       ModelWorker& worker) { worker.take_state(number, copy); });
  const auto early = std::exchange(early_, {});
  for (const auto& contribution : early) take(contribution);
  if (!must_copy_)
    fill_in([this] { go_on(); });
  else if (!is_chief() && first_stage_ < simulation_.stages())
    contribute(first_stage_, false);
  const auto states = std::exchange(early_states_, {});
  for (const auto& [number, copy] : states) take_state(number, copy);
  if (broken_view_ == working_) peer_broke(working_, "a peer could not be reached");
}

void ModelWorker::go_on() {
  if (committed_ == simulation_.stages())
    finish();
  else
    start_stage();
}

// A new chief writes what the old one could not. Before that is done it takes part in no stage, so
// that never more than one record is missing, and the next owner has it.
void ModelWorker::fill_in(std::function<void()> then) {
  if (!is_chief() || last_.stage < 0 || simulation_.checks().has_record(last_) ||
      simulation_.plant() == Plant::no_fill_in)
    return then();
  later(microseconds(1), milliseconds(1), [this, then = std::move(then)] {
    simulation_.checks().recorded(last_);
    then();
  });
}

void ModelWorker::start_stage() {
  const std::int64_t stage = committed_;
  later(microseconds(100), simulation_.stage_time(), [this, stage] { contribute(stage, true); });
}

void ModelWorker::contribute(std::int64_t stage, bool with_shards) {
  const View& view = member_.view();
  auto contribution = std::make_shared<Contribution>();
  contribution->view = working_;
  contribution->stage = stage;
  contribution->rank = rank_;
  if (member_.proposal() > working_) contribution->follow = member_.proposal();
  if (with_shards) {
    // The run of shards of this rank, among those who own any in this stage.
    int owners = 0, before = 0;
    for (int rank = 0; rank < view.size(); ++rank) {
      const bool owns = stage != first_stage_ || !view.is_behind(rank);
      owners += owns;
      before += owns && rank < rank_;
    }
    contribution->first_shard = before * simulation_.shards() / owners;
    const int end = (before + 1) * simulation_.shards() / owners;
    for (int shard = contribution->first_shard; shard < end; ++shard)
      contribution->parts.push_back(Checks::contribution(state_, stage, shard));
  }
  for (const ViewMember& member : view.members)
    if (member.info != member_.info())
      simulation_.send_to_worker(*this, member.info.id(), [contribution](ModelWorker& worker) {
        worker.take(contribution);
        worker.react();
      });
  take(contribution);
}

void ModelWorker::take(const std::shared_ptr<const Contribution>& contribution) {
  if (contribution->view > working_) {
    early_.push_back(contribution);
    return;
  }
  if (contribution->view < working_ || at_rest_) return;
  contributions_[contribution->stage].push_back(contribution);
}

void ModelWorker::take_state(std::uint64_t view, const StateCopy& copy) {
  if (view > working_) {
    early_states_.emplace_back(view, copy);
    return;
  }
  if (view < working_ || at_rest_ || !must_copy_) return;
  must_copy_ = false;
  committed_ = copy.committed;
  state_ = copy.state;
  last_ = copy.last;
  // A learner has contributed before; as chief only now, and owns no shards in this stage either.
  if (is_chief())
    fill_in([this] {
      if (committed_ == simulation_.stages())
        finish();
      else
        contribute(first_stage_, false);
    });
  else if (committed_ == simulation_.stages())
    finish();
  react();
}

void ModelWorker::try_commit() {
  if (at_rest_ || must_copy_ || writing_ || finished_) return;
  const auto found = contributions_.find(committed_);
  const View& view = member_.view();
  if (found == contributions_.end() || static_cast<int>(found->second.size()) < view.size()) return;
  const Time now = simulation_.clock().now();
  if (!member_.may_commit(now) && simulation_.plant() != Plant::commit_without_lease) return;
  auto all = std::move(found->second);
  contributions_.erase(found);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a->rank < b->rank; });
  std::vector<std::uint64_t> parts;
  std::uint64_t follow = 0;
  for (const auto& contribution : all) {
    if (!contribution->parts.empty() && contribution->first_shard != static_cast<int>(parts.size()))
      throw Violation(fmt::format("{} gets shards out of order in view {}", id(), working_));
    parts.insert(parts.end(), contribution->parts.begin(), contribution->parts.end());
    follow = std::max(follow, contribution->follow);
  }
  if (static_cast<int>(parts.size()) != simulation_.shards())
    throw Violation(fmt::format("{} gets {} shards of stage {} in view {}", id(), parts.size(),
                                committed_, working_));
  state_ = Checks::after(state_, committed_, parts);
  last_ = {committed_, working_};
  if (simulation_.tracing())
    simulation_.trace(fmt::format("{} commits stage {} in view {}", id(), committed_, working_));
  simulation_.checks().committed({.member = id(),
                                  .view = working_,
                                  .stage = committed_,
                                  .state = state_,
                                  .now = now,
                                  .lease_end = lease_end_,
                                  .oldest_active_view = simulation_.oldest_active_view()});
  ++committed_;
  member_.progress(committed_, committed_, 1);
  if (!std::exchange(resumed_, true)) member_.resumed(now, committed_, Time(1), false);
  if (!is_chief()) return after_commit(follow);
  // Not through later(): a chief writes what it has committed even if its view ends meanwhile.
  writing_ = true;
  simulation_.clock().after(simulation_.random().between(microseconds(1), microseconds(500)),
                            [this, record = last_, follow] {
                              post([this, record, follow] {
                                simulation_.checks().recorded(record);
                                if (record.view != working_ || at_rest_) return;
                                writing_ = false;
                                after_commit(follow);
                                react();
                              });
                            });
}

void ModelWorker::after_commit(std::uint64_t follow) {
  if (follow > working_) return rest("");
  if (committed_ == simulation_.stages()) return finish();
  start_stage();
  try_commit();
}

void ModelWorker::rest(const std::string& why) {
  if (at_rest_) return;
  at_rest_ = true;
  const Time now = simulation_.clock().now();
  if (simulation_.tracing())
    simulation_.trace(
        fmt::format("{} rests after view {} with {} stages: {}", id(), working_, committed_, why));
  if (!why.empty()) member_.broken(now, why);
  member_.report(now, committed_);
  flush();
}

void ModelWorker::finish() {
  if (finished_ || at_rest_) return;
  finished_ = true;
  member_.finished(simulation_.clock().now(), committed_);
  react();
}

void ModelWorker::peer_broke(std::uint64_t view, const std::string& why) {
  if (view > working_) broken_view_ = view;
  if (working_ != view || at_rest_ || going_to_rest_ || finished_ ||
      member_.state() != Member::State::training)
    return;
  going_to_rest_ = true;
  later(microseconds(10), milliseconds(2), [this, why] { rest(why); });
}

}  // namespace cohort::membership::simulator

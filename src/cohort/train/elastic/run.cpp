#include "cohort/train/elastic/run.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <span>

#include "cohort/base/error.h"
#include "cohort/collective/backend/call.h"

namespace cohort::elastic {

namespace {

using Clock = std::chrono::steady_clock;

// The workers of a job whose members stay.
class FixedMembers : public Members {
 public:
  explicit FixedMembers(collective::Group& group) : group_(group) {}
  collective::Group& group() override { return group_; }
  std::optional<std::uint64_t> planned_change() override { return std::nullopt; }
  void expect_commit(Deadline) override {}
  void committed(std::int64_t) override {}

 private:
  collective::Group& group_;
};

class SeatMembers : public Members {
 public:
  explicit SeatMembers(parallel::ElasticMembership& seat) : seat_(seat) {}
  collective::Group& group() override { return seat_.group(); }
  std::optional<std::uint64_t> planned_change() override { return seat_.agent().planned_change(); }
  void expect_commit(Deadline deadline) override { seat_.agent().expect_commit(deadline); }
  void committed(std::int64_t commits) override {
    seat_.agent().committed(commits, commits, /*samples_per_second=*/0);
  }

 private:
  parallel::ElasticMembership& seat_;
};

class Attached {
 public:
  Attached(State& state, Members& members) : state_(state) { state_.attach(&members); }
  ~Attached() { state_.attach(nullptr); }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

 private:
  State& state_;
};

// One run over one seat.
class Run {
 public:
  Run(parallel::ElasticMembership& seat, State& state, const std::function<void(State&)>& train,
      const RunOptions& options)
      : seat_(seat), state_(state), train_(train), options_(options) {}

  void until_it_is_over() {
    seat_.enter(state_.agreement().dump(), deadline());
    while (!trains_to_the_end()) {
    }
  }

 private:
  Deadline deadline() const {
    return options_.patience == std::chrono::milliseconds::max()
               ? Deadline::never()
               : Deadline::after(options_.patience);
  }

  // In one view. False: there is another now.
  bool trains_to_the_end() {
    std::optional<std::string> broke;
    try {
      state_.sync();
      if (!everybody_has_finished()) {
        if (change_began_)
          seat_.agent().resumed(state_.commits(), Clock::now() - *change_began_, redone_);
        change_began_.reset();
        train_(state_);
        state_.save();  // what came after the last commit: whoever is behind can copy it
        has_finished_ = true;
      }
      if (seat_.agent().finish(state_.commits(), deadline())) return true;
      begin_change(/*redone=*/false);
    } catch (const MembersChange&) {
      begin_change(/*redone=*/false);
    } catch (const PeerError& error) {
      broke = error.what();
      roll_back();
    } catch (const TimeoutError& error) {
      broke = error.what();
      roll_back();
    } catch (const collective::MismatchError& error) {
      broke = error.what();
      roll_back();
    }
    change(broke.value_or(""));
    return false;
  }

  // Whether there is nothing more to do here than to wait for newcomers' answer.
  bool everybody_has_finished() {
    std::int64_t finished = has_finished_ ? 1 : 0;
    seat_.group().all_reduce(std::span(&finished, 1), {.op = collective::ReduceOp::minimum});
    has_finished_ = finished == 1;
    return has_finished_;
  }

  void begin_change(bool redone) {
    if (!change_began_) change_began_ = Clock::now();
    redone_ = redone;
  }

  // In a catch block: rethrows when going back has not helped so often that it will not.
  void roll_back() {
    begin_change(/*redone=*/true);
    const std::set<std::string> members = member_ids();
    const bool fruitless =
        state_.commits() == commits_at_failure_ && members == members_at_failure_;
    fruitless_ = fruitless ? fruitless_ + 1 : 0;
    if (fruitless_ >= options_.most_fruitless) throw;
    commits_at_failure_ = state_.commits();
    members_at_failure_ = members;
    state_.restore();
  }

  void change(const std::string& why) {
    seat_.change(state_.commits(), why, deadline());
    const membership::View& view = seat_.view();
    if (view.members[static_cast<std::size_t>(seat_.rank())].stage == membership::kNoState &&
        view.stage() != membership::kNoState) {
      state_.forget();
      has_finished_ = false;
    }
    state_.members_changed();
  }

  std::set<std::string> member_ids() const {
    std::set<std::string> ids;
    for (const membership::ViewMember& member : seat_.view().members) ids.insert(member.info.id());
    return ids;
  }

  parallel::ElasticMembership& seat_;
  State& state_;
  const std::function<void(State&)>& train_;
  const RunOptions& options_;
  bool has_finished_ = false;
  std::optional<Clock::time_point> change_began_;
  bool redone_ = false;
  int fruitless_ = 0;
  std::int64_t commits_at_failure_ = membership::kNoState;
  std::set<std::string> members_at_failure_;
};

}  // namespace

void run(parallel::ElasticMembership& seat, State& state, const std::function<void(State&)>& train,
         RunOptions options) {
  if (seat.is_member())
    throw InvalidInput("this worker of an elastic job trains, or has trained, already",
                       {.advice = "Call elastic::run() or Trainer::fit() once in a program."});
  SeatMembers members(seat);
  const Attached attached(state, members);
  Run(seat, state, train, options).until_it_is_over();
}

void run(Context& context, State& state, const std::function<void(State&)>& train,
         RunOptions options) {
  if (parallel::ElasticMembership* seat = context.elastic())
    return run(*seat, state, train, options);
  FixedMembers members(context.group());
  const Attached attached(state, members);
  state.sync();
  train(state);
}

}  // namespace cohort::elastic

#include "cohort/train/elastic/run.h"

#include <optional>
#include <span>

#include "cohort/base/error.h"

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

// Those of the current view.
class ViewMembers : public Members {
 public:
  explicit ViewMembers(membership::ElasticMembership& membership) : membership_(membership) {}
  collective::Group& group() override { return membership_.group(); }
  std::optional<std::uint64_t> planned_change() override {
    return membership_.agent().planned_change();
  }
  void expect_commit(Deadline deadline) override { membership_.agent().expect_commit(deadline); }
  void committed(std::int64_t commits) override {
    membership_.agent().committed(commits, commits, /*samples_per_second=*/0);
  }

 private:
  membership::ElasticMembership& membership_;
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

// A loop of the user's own over one State.
class LoopBody : public ViewBody {
 public:
  LoopBody(membership::ElasticMembership& membership, State& state,
           const std::function<void(State&)>& train)
      : membership_(membership), state_(state), train_(train) {}

  std::int64_t commits() const override { return state_.commits(); }

  void begin_view() override {
    if (ended_) {
      forget_if_left_behind();
      state_.members_changed();
    }
    state_.sync();
    // Where all have finished there is nothing more to do than to wait for the others.
    std::int64_t finished = has_finished_ ? 1 : 0;
    membership_.group().all_reduce(std::span(&finished, 1), {.op = collective::ReduceOp::minimum});
    has_finished_ = finished == 1;
  }

  bool train() override {
    if (has_finished_) return true;
    if (ended_) membership_.agent().resumed(state_.commits(), Clock::now() - *ended_, redone_);
    ended_.reset();
    train_(state_);
    state_.save();  // what came after the last commit: a member that is behind can copy it
    has_finished_ = true;
    return true;
  }

  void roll_back() override { state_.restore(); }

  void end_view(const std::string& why) override {
    if (!ended_) ended_ = Clock::now();
    redone_ = !why.empty();
  }

 private:
  void forget_if_left_behind() {
    const membership::View& view = membership_.view();
    if (view.members[static_cast<std::size_t>(membership_.rank())].stage != membership::kNoState ||
        view.stage() == membership::kNoState)
      return;
    state_.forget();
    has_finished_ = false;
  }

  membership::ElasticMembership& membership_;
  State& state_;
  const std::function<void(State&)>& train_;
  bool has_finished_ = false;
  std::optional<Clock::time_point> ended_;  // the last view, and nothing was trained since
  bool redone_ = false;
};

}  // namespace

void run(membership::ElasticMembership& membership, State& state,
         const std::function<void(State&)>& train, RunOptions options) {
  if (membership.is_member())
    throw InvalidInput("this worker of an elastic job trains, or has trained, already",
                       {.advice = "Call elastic::run() or Trainer::fit() once in a program."});
  ViewMembers members(membership);
  const Attached attached(state, members);
  ViewDriver driver(membership, options);
  membership.enter(state.agreement().dump(), driver.deadline());
  LoopBody body(membership, state, train);
  driver.run(body);
}

void run(Context& context, State& state, const std::function<void(State&)>& train,
         RunOptions options) {
  if (membership::ElasticMembership* membership = context.elastic())
    return run(*membership, state, train, options);
  FixedMembers members(context.group());
  const Attached attached(state, members);
  state.sync();
  train(state);
}

}  // namespace cohort::elastic

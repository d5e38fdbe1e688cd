// What the worker's thread calls. agent_loop.cpp has the agent's own thread.
#include "cohort/membership/service/agent.h"

#include <fmt/format.h>

#include "cohort/base/log/log.h"
#include "cohort/membership/protocol/agreement.h"
#include "cohort/membership/service/agent_loop.h"

namespace cohort::membership {

void Agent::Loop::wait_change(Lock& lock, Deadline deadline) {
  if (deadline.is_never())
    changed_.wait(lock);
  else
    changed_.wait_until(lock, deadline.when());
}

void Agent::Loop::expect_coordinator() const {
  if (lost_)
    throw PeerError(
        fmt::format("{} has lost the coordinator of its job: {}", member_.info().id(), *lost_),
        {.advice = "Look what became of `cohort run`; `cohort resume` goes on where the last "
                   "checkpoint is."});
}

void Agent::Loop::throw_no_answer(const std::string& awaited) const {
  auto lease = member_.lease_end();
  std::string id = member_.info().id();
  if (lease && steady_now() < *lease)
    throw TimeoutError(fmt::format("{} waited in vain for {}", id, awaited),
                       {.advice = "See with `cohort status` for whom the job waits."});
  std::string since = lease ? fmt::format("; its lease ended {} ms ago",
                                          (steady_now() - *lease) / std::chrono::milliseconds(1))
                            : "";
  throw PeerError(
      fmt::format("{} waited in vain for {}: the coordinator of the job does not answer{}", id,
                  awaited, since),
      {.advice = "Look what became of `cohort run`, and of the network to its host."});
}

// Under another id, as one who has nothing.
void Agent::Loop::come_again(Deadline deadline) {
  log::info("{} was shut out ({}); it comes again", member_.info().id(), member_.reason());
  MemberInfo next = member_.info();
  ++next.rejoins;
  mailbox_->rename(next, deadline);
  member_.rejoin(steady_now());
  send_out();
  mailbox_->wake(deadline);  // the thread has beats to make again
}

View Agent::Loop::wait_for_view(Lock& lock, std::int64_t stage, Deadline deadline) {
  for (;;) {
    expect_coordinator();
    switch (member_.state()) {
      case Member::State::training:
        if (member_.view().number <= returned_) break;
        if (member_.must_drop()) {  // somebody was lost before this view began
          member_.report(steady_now(), stage);
          send_out();
          break;
        }
        returned_ = member_.view().number;
        in_use_ = true;
        return member_.view();
      case Member::State::evicted:
        come_again(deadline);
        stage = kNoState;
        break;
      case Member::State::dismissed:
      case Member::State::over:
        throw Dismissed(fmt::format("the job does not need {} any more{}{}", member_.info().id(),
                                    member_.reason().empty() ? "" : ": ", member_.reason()));
      case Member::State::refused:
        throw InvalidInput(fmt::format("{} cannot take part in its job: {}", member_.info().task,
                                       describe_difference(agreement_, member_.reason())),
                           {.advice = "Start every worker with the same program, flags and data."});
      default:
        break;
    }
    if (deadline.expired()) throw_no_answer("its next view");
    wait_change(lock, deadline);
  }
}

View Agent::Loop::next_view(std::int64_t stage, const std::string& why, Deadline deadline) {
  Lock lock(mutex_);
  in_use_ = false;
  if (member_.state() == Member::State::training) {
    Time now = steady_now();
    if (!why.empty() && !member_.must_drop()) member_.broken(now, why);
    member_.report(now, stage);
    send_out();
  }
  return wait_for_view(lock, stage, deadline);
}

void Agent::Loop::wait_to_commit(Deadline deadline) {
  Lock lock(mutex_);
  for (;;) {
    expect_coordinator();
    Time now = steady_now();
    if (member_.may_commit(now)) return;
    if (member_.state() != Member::State::training || member_.must_drop())
      throw ViewEnded(fmt::format("view {} is over{}{}", returned_,
                                  member_.reason().empty() ? "" : ": ", member_.reason()));
    if (deadline.expired())
      throw ViewEnded(
          fmt::format("view {} is over for {}: it has no lease, and the coordinator of "
                      "the job does not answer",
                      returned_, member_.info().id()));
    wait_change(lock, deadline);
  }
}

bool Agent::Loop::finish(std::int64_t stage, Deadline deadline) {
  Lock lock(mutex_);
  auto is_change_due = [&] { return member_.proposal() > member_.view().number; };
  if (member_.state() == Member::State::training && !is_change_due()) {
    member_.finished(steady_now(), stage);
    send_out();
  }
  while (member_.state() == Member::State::training && !is_change_due()) {
    expect_coordinator();
    if (deadline.expired()) throw_no_answer("the others to finish");
    wait_change(lock, deadline);
  }
  if (member_.state() == Member::State::dismissed)
    throw Dismissed(fmt::format("the job does not need {} any more: {}", member_.info().id(),
                                member_.reason()));
  bool is_over = member_.state() == Member::State::over;
  if (is_over) in_use_ = false;
  return is_over;
}

void Agent::Loop::leave(Deadline deadline) {
  {
    std::lock_guard lock(mutex_);
    in_use_ = false;
    if (mailbox_ && !lost_) {
      member_.leave(steady_now(), "it left");
      send_out();
    }
  }
  try {
    if (mailbox_) mailbox_->say_goodbye(deadline);
  } catch (const Error& error) {
    log::debug("nobody heard {} leave: {}", info().id(), error.message());
  }
  close();
}

Agent::Agent(cluster::StoreClient& store, std::string prefix, MemberInfo self)
    : loop_(std::make_unique<Loop>(store, std::move(prefix), std::move(self))) {}

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

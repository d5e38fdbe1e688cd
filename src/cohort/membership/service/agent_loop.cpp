#include "cohort/membership/service/agent_loop.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/process/dismissed.h"
#include "cohort/base/process/wait_interrupt.h"
#include "cohort/membership/protocol/agreement.h"
#include "cohort/membership/service/view_ended.h"

namespace cohort::membership {
namespace {

// For one message to go out: the store takes them as fast as they come, or is gone.
constexpr std::chrono::seconds kAgentSendPatience{5};
constexpr int kNice = -5;

// Beats must go out although every core computes. Where that is not allowed, a thread that mostly
// sleeps is still preferred to one that never does.
void prefer_this_thread() { ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice); }

}  // namespace

AgentLoop::AgentLoop(cluster::StoreClient& store, std::string prefix, MemberInfo self)
    : session_store_(store), prefix_(std::move(prefix)), member_(std::move(self)) {}

AgentLoop::~AgentLoop() { close(); }

void AgentLoop::close() {
  closing_ = true;
  // First, and without the lock: ends whatever a thread waits for.
  if (store_) store_->close();
  {
    std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

View AgentLoop::enter(const std::string& agreement, Deadline deadline) {
  if (store_) throw InvalidInput("an agent enters its job once");
  store_ = session_store_.connect_again(session_store_.name() + " (agent)", deadline);
  mailbox_.emplace(*store_, prefix_, member_.info(), deadline);
  Lock lock(mutex_);
  agreement_ = agreement;
  member_.ready(steady_now(), agreement);
  send_out();
  thread_ = std::thread([this] { run(); });
  return wait_for_view(lock, kNoState, deadline);
}

void AgentLoop::run() {
  const log::NeverWait never_wait;
  prefer_this_thread();
  while (!closing_) {
    try {
      Deadline deadline = Deadline::never();
      {
        std::lock_guard lock(mutex_);
        deadline = next_deadline();
      }
      std::optional<Message> mail = mailbox_->next(deadline);
      if (wait_out_cut()) take_mail(mail);
    } catch (const ProtocolError& error) {
      log::warning("the coordinator sent what is no message: {}", error.message());
    } catch (const Error& error) {
      lose(error.message());
      return;
    }
  }
}

bool AgentLoop::wait_out_cut() {
  Lock lock(mutex_);
  while (!closing_ && steady_now() < cut_until_)
    changed_.wait_until(lock, deadline_at(cut_until_).when());
  return !closing_;
}

Deadline AgentLoop::next_deadline() const {
  return deadline_at(member_.next_tick().value_or(Time::max()));
}

void AgentLoop::take_mail(const std::optional<Message>& mail) {
  std::optional<std::string> drop;
  {
    std::lock_guard lock(mutex_);
    Time now = steady_now();
    if (mail) member_.handle(now, *mail);
    if (has_progress_.exchange(false)) member_.progress(stage_, step_, rate_);
    if (member_.next_tick().value_or(Time::max()) <= now) member_.tick(now);
    send_out();
    drop = take_drop();
    changed_.notify_all();
  }
  // No view can be installed before this returns, so it concerns none but the one it is meant for.
  if (drop && drop_) drop_(*drop);
}

void AgentLoop::lose(const std::string& why) {
  std::optional<std::string> drop;
  {
    std::lock_guard lock(mutex_);
    if (!lost_) lost_ = why;
    publish();
    drop = take_drop();
    changed_.notify_all();
  }
  if (drop && drop_ && !closing_) drop_(*drop);
}

bool AgentLoop::is_broken_off() const {
  switch (member_.state()) {
    case Member::State::evicted:
    case Member::State::dismissed:
    case Member::State::refused:
      return true;
    default:
      return lost_ || member_.must_drop();
  }
}

std::optional<std::string> AgentLoop::take_drop() {
  if (!in_use_ || dropped_ == returned_ || !is_broken_off()) return std::nullopt;
  dropped_ = returned_;
  if (lost_) return fmt::format("the job's coordinator is gone: {}", *lost_);
  return member_.reason();
}

void AgentLoop::send_out() {
  auto messages = member_.take_messages();
  publish();
  if (lost_ || steady_now() < cut_until_) return;
  try {
    for (const Message& message : messages)
      mailbox_->send(message, Deadline::after(kAgentSendPatience));
  } catch (const Error& error) {
    store_->close();  // the thread notices, and says so
  }
}

void AgentLoop::publish() {
  bool trains = !lost_ && member_.state() == Member::State::training && !member_.must_drop();
  Time until = trains ? member_.lease_end().value_or(Time::zero()) : Time::zero();
  commit_until_.store(until.count(), std::memory_order_release);
  bool is_due = trains && member_.proposal() > member_.view().number;
  planned_change_.store(is_due ? member_.proposal() : 0, std::memory_order_release);
}

void AgentLoop::committed(std::int64_t stage, std::int64_t step, double rate) noexcept {
  stage_ = stage;
  step_ = step;
  rate_ = rate;
  has_progress_ = true;
}

void AgentLoop::resumed(std::int64_t step, Time stood_still, bool redone) {
  std::lock_guard lock(mutex_);
  member_.resumed(steady_now(), step, stood_still, redone);
  send_out();
}

void AgentLoop::cut_off(Time duration) {
  std::lock_guard lock(mutex_);
  cut_until_ = steady_now() + duration;
  changed_.notify_all();
}

MemberInfo AgentLoop::info() const {
  std::lock_guard lock(mutex_);
  return member_.info();
}

// --- What the worker's thread calls ---

void AgentLoop::wait_change(Lock& lock, Deadline deadline) {
  if (WaitInterrupt::is_due()) {
    lock.unlock();
    WaitInterrupt::ask();
    lock.lock();
    return;
  }
  const Deadline until = WaitInterrupt::limit(deadline);
  if (until.is_never())
    changed_.wait(lock);
  else
    changed_.wait_until(lock, until.when());
}

void AgentLoop::expect_coordinator() const {
  if (lost_)
    throw PeerError(
        fmt::format("{} has lost the coordinator of its job: {}", member_.info().id(), *lost_),
        {.advice = "Look what became of `cohort run`; `cohort resume` goes on where the last "
                   "checkpoint is."});
}

void AgentLoop::throw_no_answer(const std::string& awaited) const {
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

// Under another id, as a newcomer without state.
void AgentLoop::rejoin(Deadline deadline) {
  log::info("{} was shut out ({}); it comes again", member_.info().id(), member_.reason());
  MemberInfo next = member_.info();
  ++next.rejoins;
  mailbox_->rename(next, deadline);
  member_.rejoin(steady_now());
  send_out();
  mailbox_->wake(deadline);  // the thread has beats to make again
}

View AgentLoop::wait_for_view(Lock& lock, std::int64_t stage, Deadline deadline) {
  for (;;) {
    expect_coordinator();
    switch (member_.state()) {
      case Member::State::training:
        if (member_.view().number <= returned_) break;
        if (member_.must_drop()) {  // a member was lost before this view began
          member_.report(steady_now(), stage);
          send_out();
          break;
        }
        returned_ = member_.view().number;
        in_use_ = true;
        return member_.view();
      case Member::State::evicted:
        rejoin(deadline);
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

View AgentLoop::next_view(std::int64_t stage, const std::string& why, Deadline deadline) {
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

void AgentLoop::wait_to_commit(Deadline deadline) {
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

bool AgentLoop::finish(std::int64_t stage, Deadline deadline) {
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

void AgentLoop::leave(Deadline deadline) {
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
    log::debug("the coordinator did not hear {} leave: {}", info().id(), error.message());
  }
  close();
}

}  // namespace cohort::membership

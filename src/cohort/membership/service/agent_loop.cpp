#include "cohort/membership/service/agent_loop.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cohort/base/log/log.h"

namespace cohort::membership {
namespace {

// For one message to go out: the store takes them as fast as they come, or is gone.
constexpr std::chrono::seconds kAgentSendPatience{5};
constexpr int kNice = -5;

// Beats must go out although every core computes. Where that is not allowed, a thread that mostly
// sleeps is still preferred to one that never does.
void prefer_this_thread() { ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice); }

}  // namespace

Agent::Loop::Loop(cluster::StoreClient& store, std::string prefix, MemberInfo self)
    : session_store_(store), prefix_(std::move(prefix)), member_(std::move(self)) {}

Agent::Loop::~Loop() { close(); }

void Agent::Loop::close() {
  closing_ = true;
  // First, and without the lock: ends whatever a thread waits for.
  if (store_) store_->close();
  {
    std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

View Agent::Loop::enter(const std::string& agreement, Deadline deadline) {
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

void Agent::Loop::run() {
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

bool Agent::Loop::wait_out_cut() {
  Lock lock(mutex_);
  while (!closing_ && steady_now() < cut_until_)
    changed_.wait_until(lock, deadline_at(cut_until_).when());
  return !closing_;
}

Deadline Agent::Loop::next_deadline() const {
  return deadline_at(member_.next_tick().value_or(Time::max()));
}

void Agent::Loop::take_mail(const std::optional<Message>& mail) {
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

void Agent::Loop::lose(const std::string& why) {
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

bool Agent::Loop::is_broken_off() const {
  switch (member_.state()) {
    case Member::State::evicted:
    case Member::State::dismissed:
    case Member::State::refused:
      return true;
    default:
      return lost_ || member_.must_drop();
  }
}

std::optional<std::string> Agent::Loop::take_drop() {
  if (!in_use_ || dropped_ == returned_ || !is_broken_off()) return std::nullopt;
  dropped_ = returned_;
  if (lost_) return fmt::format("the job's coordinator is gone: {}", *lost_);
  return member_.reason();
}

void Agent::Loop::send_out() {
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

void Agent::Loop::publish() {
  bool trains = !lost_ && member_.state() == Member::State::training && !member_.must_drop();
  Time until = trains ? member_.lease_end().value_or(Time::zero()) : Time::zero();
  commit_until_.store(until.count(), std::memory_order_release);
  bool is_due = trains && member_.proposal() > member_.view().number;
  planned_change_.store(is_due ? member_.proposal() : 0, std::memory_order_release);
}

void Agent::Loop::committed(std::int64_t stage, std::int64_t step, double rate) noexcept {
  stage_ = stage;
  step_ = step;
  rate_ = rate;
  has_progress_ = true;
}

void Agent::Loop::resumed(std::int64_t step, Time stood_still, bool redone) {
  std::lock_guard lock(mutex_);
  member_.resumed(steady_now(), step, stood_still, redone);
  send_out();
}

void Agent::Loop::cut_off(Time duration) {
  std::lock_guard lock(mutex_);
  cut_until_ = steady_now() + duration;
  changed_.notify_all();
}

MemberInfo Agent::Loop::info() const {
  std::lock_guard lock(mutex_);
  return member_.info();
}

}  // namespace cohort::membership

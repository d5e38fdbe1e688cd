#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "cohort/base/deadline.h"
#include "cohort/cluster/store/store_client.h"
#include "cohort/membership/protocol/member.h"
#include "cohort/membership/protocol/steady_time.h"
#include "cohort/membership/service/mailbox.h"

namespace cohort::membership {

// What stands behind an Agent (agent.h has the contract): its Member, its thread and what passes
// between them. A thread that has something to tell the Member does so itself and sends what follows
// from it; the agent's thread reads the mail, beats, and calls on_drop.
class AgentLoop {
 public:
  AgentLoop(cluster::StoreClient& store, std::string prefix, MemberInfo self);
  ~AgentLoop();  // close()

  void on_drop(std::function<void(const std::string& why)> drop) { drop_ = std::move(drop); }

  View enter(const std::string& agreement, Deadline deadline);
  View next_view(std::int64_t stage, const std::string& why, Deadline deadline);
  bool finish(std::int64_t stage, Deadline deadline);
  void leave(Deadline deadline);
  void wait_to_commit(Deadline deadline);
  void resumed(std::int64_t step, Time stood_still, bool redone);
  void cut_off(Time duration);
  MemberInfo info() const;

  bool may_commit() const noexcept {
    return steady_now().count() < commit_until_.load(std::memory_order_acquire);
  }
  Time lease() const {
    std::lock_guard lock(mutex_);
    return member_.lease();
  }
  std::uint64_t planned_change() const noexcept {
    return planned_change_.load(std::memory_order_acquire);
  }
  void committed(std::int64_t stage, std::int64_t step, double rate) noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;

  // The thread's.
  void run();
  bool wait_out_cut();
  void take_mail(const std::optional<Message>& mail);
  void lose(const std::string& why);
  void close();

  // With the lock.
  Deadline next_deadline() const;
  void send_out();  // what the Member has to say; then what callers may know
  void publish();
  bool is_broken_off() const;
  std::optional<std::string> take_drop();
  View wait_for_view(Lock& lock, std::int64_t stage, Deadline deadline);
  void rejoin(Deadline deadline);
  void expect_coordinator() const;
  [[noreturn]] void throw_no_answer(const std::string& awaited) const;
  void wait_change(Lock& lock, Deadline deadline);

  cluster::StoreClient& session_store_;
  const std::string prefix_;
  std::function<void(const std::string& why)> drop_;
  std::string agreement_;

  mutable std::mutex mutex_;  // guards what follows, up to the atomics
  std::condition_variable changed_;
  Member member_;
  std::uint64_t returned_ = 0;  // the number of the view that the worker knows
  bool in_use_ = false;         // the worker may be in that view's collectives
  std::uint64_t dropped_ = 0;   // the last view of which it was told to drop it
  std::optional<std::string> lost_;
  Time cut_until_{0};

  std::atomic<bool> closing_{false};
  std::atomic<std::int64_t> commit_until_{0};
  std::atomic<std::uint64_t> planned_change_{0};
  std::atomic<bool> has_progress_{false};
  std::atomic<std::int64_t> stage_{0};
  std::atomic<std::int64_t> step_{0};
  std::atomic<double> rate_{0};

  std::unique_ptr<cluster::StoreClient> store_;  // from enter() on, as the two that follow
  std::optional<MemberMailbox> mailbox_;
  std::thread thread_;
};

}  // namespace cohort::membership

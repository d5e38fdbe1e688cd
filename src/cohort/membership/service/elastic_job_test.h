#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cohort/cluster/store/store_client.h"
#include "cohort/cluster/store/store_server.h"
#include "cohort/membership/protocol/steady_time.h"
#include "cohort/membership/service/agent.h"
#include "cohort/membership/service/coordinator_service.h"

namespace cohort::membership {

inline Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

// For tests: an elastic job on this machine, with a store and a coordinator.
class ElasticJob {
 public:
  explicit ElasticJob(CoordinatorOptions options) {
    service_ = std::make_unique<CoordinatorService>(
        CoordinatorServiceOptions{.store = server_.address(),
                                  .secret = std::nullopt,
                                  .prefix = mailbox_prefix("test", 1),
                                  .coordinator = options,
                                  .on_event = [this](const MembershipEvent& event) {
                                    std::lock_guard lock(mutex_);
                                    events_.push_back(event);
                                    changed_.notify_all();
                                  }});
  }

  CoordinatorService& service() { return *service_; }
  void kill_service() { service_.reset(); }
  void kill_store() { server_.close(); }
  const cluster::Address& store() const { return server_.address(); }

  // Until the coordinator has heard of this member (an id) at `time` or later.
  void wait_heard(const std::string& id, Time time) {
    const Deadline deadline = soon();
    while (!deadline.expired()) {
      for (const MemberStatus& member : service_->status().members)
        if (member.info.id() == id && member.last_heard >= time) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ADD_FAILURE() << "nothing was heard of " << id;
  }

  // The first event of this kind, by `skip` such ones.
  MembershipEvent wait_event(MembershipEvent::Kind kind, int skip = 0) {
    std::unique_lock lock(mutex_);
    MembershipEvent found;
    bool came = changed_.wait_until(lock, soon().when(), [&] {
      int left = skip;
      for (const MembershipEvent& event : events_)
        if (event.kind == kind && left-- == 0) {
          found = event;
          return true;
        }
      return false;
    });
    EXPECT_TRUE(came) << "no event of kind " << static_cast<int>(kind);
    return found;
  }

  // All events of this kind so far.
  std::vector<MembershipEvent> events(MembershipEvent::Kind kind) {
    const std::lock_guard lock(mutex_);
    std::vector<MembershipEvent> result;
    for (const MembershipEvent& event : events_)
      if (event.kind == kind) result.push_back(event);
    return result;
  }

 private:
  cluster::StoreServer server_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<MembershipEvent> events_;
  std::unique_ptr<CoordinatorService> service_;
};

// For tests: one worker of it, driven by the test's threads.
class Worker {
 public:
  Worker(ElasticJob& job, int index, int incarnation = 0)
      : store_(cluster::StoreClient::connect(
            {.address = job.store(),
             .secret = std::nullopt,
             .name = "worker/" + std::to_string(index) + "." + std::to_string(incarnation)},
            soon())),
        agent_(std::make_unique<Agent>(*store_, mailbox_prefix("test", 1),
                                       MemberInfo{.task = "worker/" + std::to_string(index),
                                                  .incarnation = incarnation,
                                                  .host = "here",
                                                  .pid = 100 + index})) {
    agent_->on_drop([this](const std::string& why) {
      std::lock_guard lock(mutex_);
      drops_.push_back({why, steady_now()});
      changed_.notify_all();
    });
  }

  Agent* operator->() { return agent_.get(); }
  void die() { agent_.reset(); }

  struct Drop {
    std::string why;
    Time at;
  };
  Drop wait_drop(std::size_t skip = 0) {
    std::unique_lock lock(mutex_);
    bool came = changed_.wait_until(lock, soon().when(), [&] { return drops_.size() > skip; });
    EXPECT_TRUE(came) << "no drop";
    return came ? drops_[skip] : Drop{};
  }
  // Until it may not commit any more, since its lease has ended.
  void wait_lease_end() {
    const Deadline deadline = soon();
    try {
      while (!deadline.expired()) {
        agent_->expect_commit(Deadline::after({}));
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    } catch (const ViewEnded&) {
      return;
    }
    ADD_FAILURE() << "its lease does not end";
  }
  std::size_t drops() {
    std::lock_guard lock(mutex_);
    return drops_.size();
  }

 private:
  std::unique_ptr<cluster::StoreClient> store_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Drop> drops_;
  std::unique_ptr<Agent> agent_;
};

// The members' ids, by rank.
inline std::vector<std::string> ids_of(const View& view) {
  std::vector<std::string> ids;
  for (const ViewMember& member : view.members) ids.push_back(member.info.id());
  return ids;
}

}  // namespace cohort::membership

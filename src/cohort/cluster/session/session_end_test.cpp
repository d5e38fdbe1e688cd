#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <mutex>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/cluster/session/session.h"
#include "cohort/cluster/session/session_roles_test.h"

namespace cohort::cluster {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// The parameter server and two workers of a job with a launcher, which is `server` here.
class ServingThroughLosses : public ::testing::Test {
 protected:
  std::unique_ptr<Session> join(TaskId id) {
    Role role = role_in(cluster_, id);
    role.store = server_.address();
    role.attempt = 2;
    return Session::join(role, fast());
  }
  void serve(milliseconds patience) {
    result_ = std::async(std::launch::async, [this, patience] {
      return ps_->serve_through_losses(
          patience,
          [this](const TaskId& task, TaskEvent event) {
            std::lock_guard lock(mutex_);
            events_.push_back({task.index, event});
            changed_.notify_all();
            if (events_.size() == close_store_at_) server_.close();
          },
          soon());
    });
  }
  using Events = std::vector<std::pair<int, TaskEvent>>;
  // Waits until so many have come.
  Events events(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, soon().when(), [&] { return events_.size() >= count; });
    return events_;
  }

  StoreServer server_;
  ClusterSpec cluster_ = local_cluster(2, 1);
  std::unique_ptr<Session> ps_ = join({TaskType::ps, 0});
  std::unique_ptr<Session> first_ = join({TaskType::worker, 0});
  std::unique_ptr<Session> second_ = join({TaskType::worker, 1});
  std::mutex mutex_;
  std::condition_variable changed_;
  Events events_;
  std::size_t close_store_at_ = 0;
  std::future<std::vector<TaskId>> result_;
};

constexpr milliseconds kPatient{60'000};
constexpr milliseconds kImpatient{30};

TEST_F(ServingThroughLosses, AWorkerThatComesBackIsAwaitedAgain) {
  serve(kPatient);
  second_.reset();
  EXPECT_EQ(events(1), (Events{{1, TaskEvent::lost}}));
  second_ = join({TaskType::worker, 1});
  EXPECT_EQ(events(2).back(), std::pair(1, TaskEvent::returned));
  first_->done(soon());
  EXPECT_EQ(events(3).back(), std::pair(0, TaskEvent::done));
  EXPECT_EQ(result_.wait_for(milliseconds(50)), std::future_status::timeout);
  second_->done(soon());
  EXPECT_TRUE(result_.get().empty());
  EXPECT_EQ(events(4).back(), std::pair(1, TaskEvent::done));
}

TEST_F(ServingThroughLosses, AWorkerThatStaysAwayIsNamedWhenTheOthersAreDone) {
  serve(kImpatient);
  second_.reset();
  EXPECT_EQ(events(2), (Events{{1, TaskEvent::lost}, {1, TaskEvent::gone}}));
  EXPECT_EQ(result_.wait_for(milliseconds(50)), std::future_status::timeout);
  first_->done(soon());
  EXPECT_EQ(result_.get(), (std::vector<TaskId>{{TaskType::worker, 1}}));
}

TEST_F(ServingThroughLosses, AWorkerThatWasTakenForGoneMayStillReturn) {
  serve(kImpatient);
  second_.reset();
  events(2);
  second_ = join({TaskType::worker, 1});
  EXPECT_EQ(events(3).back(), std::pair(1, TaskEvent::returned));
  first_->done(soon());
  EXPECT_EQ(result_.wait_for(milliseconds(50)), std::future_status::timeout);
  second_->done(soon());
  EXPECT_TRUE(result_.get().empty());
}

TEST_F(ServingThroughLosses, WhenAllAreGoneItEndsToo) {
  serve(kImpatient);
  first_.reset();
  second_.reset();
  EXPECT_EQ(result_.get().size(), 2u);
}

TEST_F(ServingThroughLosses, AServerThatWasStartedAgainLearnsOfThoseThatLeftMeanwhile) {
  ps_.reset();
  first_->done(soon());
  second_.reset();
  ps_ = join({TaskType::ps, 0});
  serve(kImpatient);
  EXPECT_EQ(result_.get(), (std::vector<TaskId>{{TaskType::worker, 1}}));
}

TEST_F(ServingThroughLosses, AStoreThatClosesAfterTheLastWorkerIsNoFailure) {
  close_store_at_ = 2;
  serve(kPatient);
  first_->done(soon());
  second_->done(soon());
  EXPECT_TRUE(result_.get().empty());
  ps_->close(soon());
}

TEST_F(ServingThroughLosses, AStoreThatClosesBeforeIsOne) {
  close_store_at_ = 1;
  serve(kPatient);
  first_->done(soon());
  EXPECT_THROW(result_.get(), PeerError);
}

TEST_F(ServingThroughLosses, AnotherThreadMayEndTheWait) {
  serve(kPatient);
  first_->done(soon());
  events(1);
  ps_->store().close();
  EXPECT_THROW(result_.get(), PeerError);
}

TEST_F(ServingThroughLosses, TheDeadlineHoldsWhileATaskIsLost) {
  second_.reset();
  EXPECT_THAT(message_of<TimeoutError>([&] {
                ps_->serve_through_losses(kPatient, {}, Deadline::after(milliseconds(50)));
              }),
              HasSubstr("2 of 2 training tasks are not done in time"));
}

// Two connections of one task, as when a host was cut off: the store sees the first one's end last.
TEST_F(ServingThroughLosses, TheLateEndOfATasksOldConnectionIsNotItsLoss) {
  serve(kPatient);
  first_->done(soon());
  events(1);
  auto again = join({TaskType::worker, 1});
  second_.reset();
  ASSERT_TRUE(server_.wait_for_clients_at_most(3, soon()));
  again->done(soon());
  EXPECT_TRUE(result_.get().empty());
  EXPECT_EQ(events(2), (Events{{0, TaskEvent::done}, {1, TaskEvent::done}}));
}

}  // namespace
}  // namespace cohort::cluster

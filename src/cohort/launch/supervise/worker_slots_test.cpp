#include "cohort/launch/supervise/worker_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>

#include "cohort/base/error.h"
#include "cohort/launch/task/start_retries.h"

namespace cohort::launch {
namespace {

using cluster::TaskId;
using cluster::TaskType;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using Kind = WorkerSlots::Action::Kind;

constexpr milliseconds kSlotGrace{2000};

std::vector<TaskId> worker_ids(int count) {
  std::vector<TaskId> ids;
  for (int i = 0; i < count; ++i) ids.push_back({TaskType::worker, i});
  return ids;
}

// Four slots of a job of 2 to 4 workers. What is to be started starts, unless a test says
// otherwise; the other actions are kept as text: "kill 1", "resize 3", "fail".
class SlotsOfAJob : public ::testing::Test {
 protected:
  explicit SlotsOfAJob(WorkerSlots::Options options = {.least = 2,
                                                       .most = 4,
                                                       .wanted = 4,
                                                       .host_slots = 4,
                                                       .restarts = 2,
                                                       .grace = kSlotGrace})
      : slots_(options, worker_ids(options.most)) {
    for (const TaskId& id : worker_ids(options.most))
      records_[id.index] = TaskRecord{.id = id, .host = "here"};
  }

  WorkerSlots::Time now() const { return WorkerSlots::Time(time_); }

  // What the actions are, in order; starts are carried out.
  std::vector<std::string> take() {
    std::vector<std::string> texts;
    for (auto actions = slots_.take_actions(); !actions.empty(); actions = slots_.take_actions())
      for (const auto& action : actions) {
        const std::string worker = std::to_string(action.worker.index);
        switch (action.kind) {
          case Kind::start:
            texts.push_back("start " + worker);
            start(records_.at(action.worker.index));
            break;
          case Kind::ask_to_stop:
            texts.push_back("stop " + worker);
            break;
          case Kind::kill:
            texts.push_back("kill " + worker);
            break;
          case Kind::resize:
            texts.push_back("resize " + std::to_string(action.members));
            break;
          case Kind::succeed:
            texts.push_back("succeed");
            break;
          case Kind::fail:
            texts.push_back("fail");
            break;
        }
      }
    return texts;
  }

  void start(TaskRecord& record) {
    if (!start_error_.empty())
      return slots_.on_start_failed(record, start_error_, is_shortage_, now());
    if (record.exit) ++record.restarts;
    record.exit.reset();
    record.pid = 100 + record.id.index;
    slots_.on_started(record);
  }

  std::vector<std::string> exit(int index, ExitStatus status,
                                milliseconds ran_for = milliseconds(60'000)) {
    TaskRecord& record = records_.at(index);
    record.exit = status;
    record.ran_for = ran_for;
    slots_.on_exit(record, now());
    return take();
  }

  std::vector<std::string> wake() {
    EXPECT_TRUE(slots_.wake_at());
    time_ = slots_.wake_at().value_or(now()).time_since_epoch();
    slots_.on_time(now());
    return take();
  }

  membership::View view_of(std::initializer_list<int> workers) {
    membership::View view{.number = ++view_number_};
    for (int index : workers)
      view.members.push_back({.info = {.task = "worker/" + std::to_string(index),
                                       .incarnation = records_.at(index).restarts}});
    return view;
  }
  void install(std::initializer_list<int> workers) { slots_.on_view(view_of(workers), now()); }
  void train() {
    slots_.start();
    take();
    install({0, 1, 2, 3});
    EXPECT_TRUE(wake().empty());  // none is too many
  }

  using Texts = std::vector<std::string>;

  WorkerSlots slots_;
  std::map<int, TaskRecord> records_;
  std::chrono::steady_clock::duration time_{0};
  std::uint64_t view_number_ = 0;
  std::string start_error_;
  bool is_shortage_ = false;
};

const ExitStatus kKilled{.signal = SIGKILL};

TEST_F(SlotsOfAJob, TheWantedNumberStarts) {
  slots_.start();
  EXPECT_EQ(take(), (Texts{"start 0", "start 1", "start 2", "start 3"}));
  EXPECT_FALSE(slots_.wake_at());
}

TEST_F(SlotsOfAJob, AWorkerThatDiesIsStartedAgainUntilItsRestartsAreUsedUp) {
  train();
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(exit(3, kKilled).empty());
    EXPECT_EQ(wake(), Texts{"start 3"});
  }
  EXPECT_TRUE(exit(3, kKilled).empty());
  EXPECT_FALSE(slots_.wake_at());
  EXPECT_FALSE(slots_.is_stopped());
  ASSERT_EQ(slots_.failures().size(), 1U);
  EXPECT_EQ(slots_.failures().front().id.index, 3);
}

TEST_F(SlotsOfAJob, ADeadMembersSuccessorStartsWhenTheOthersTrainAgain) {
  train();
  exit(3, kKilled);
  EXPECT_EQ(slots_.wake_at(), now() + milliseconds(1000));  // at the latest
  slots_.on_training_resumed();
  EXPECT_EQ(take(), Texts{"start 3"});
  EXPECT_FALSE(slots_.wake_at());
}

TEST_F(SlotsOfAJob, ASuccessorWithoutWhichTheOthersCannotTrainStartsAtOnce) {
  train();
  install({0, 1});  // the least
  wake();
  exit(1, kKilled);
  EXPECT_EQ(slots_.wake_at(), now());
}

TEST_F(SlotsOfAJob, AQuickDeathWaits) {
  train();
  exit(1, kKilled, milliseconds(10));
  EXPECT_EQ(wake(), Texts{"start 1"});
  const auto died = now();
  exit(1, kKilled, milliseconds(10));
  EXPECT_EQ(slots_.wake_at(), died + milliseconds(250));
}

TEST_F(SlotsOfAJob, TheJobFailsWhenFewerThanTheLeastCanRun) {
  slots_.start();
  take();
  EXPECT_EQ(exit(0, {.code = 2}), Texts{"resize 3"});  // usage errors, before the first view
  EXPECT_EQ(exit(1, {.code = 2}), Texts{"resize 2"});
  EXPECT_EQ(exit(2, {.code = 2}), Texts{"fail"});
  EXPECT_THAT(slots_.failure(), HasSubstr("only 1 worker can still run"));
  EXPECT_EQ(slots_.failures().size(), 3U);
  EXPECT_FALSE(slots_.is_member_missed());
}

TEST_F(SlotsOfAJob, AWorkerThatEndsWellTooEarlyIsExcludedUnlessNewsComes) {
  train();
  EXPECT_TRUE(exit(2, {}).empty());
  EXPECT_TRUE(wake().empty());
  EXPECT_FALSE(slots_.wake_at());
  EXPECT_FALSE(slots_.is_stopped());
  exit(3, {});
  slots_.on_dismissed("worker/3.0.0", now());  // the news: it was told to go
  EXPECT_FALSE(slots_.wake_at());
}

TEST_F(SlotsOfAJob, AnEvictedWorkerThatDoesNotComeAgainIsKilled) {
  train();
  slots_.on_evicted("worker/1.0.0", "its lease ended", now());
  EXPECT_EQ(wake(), Texts{"kill 1"});
  slots_.on_evicted("worker/2.0.0", "its lease ended", now());
  install({0, 2, 3});
  EXPECT_TRUE(wake().empty());  // it came again
  slots_.on_evicted("worker/3.7.0", "another run of it", now());
  EXPECT_TRUE(slots_.on_death_seen({TaskType::worker, 3}));
  EXPECT_FALSE(slots_.on_death_seen({TaskType::worker, 3}));
  slots_.on_evicted("worker/3.0.0", "its connection ended", now());
  EXPECT_FALSE(slots_.wake_at());  // a dead one does not come again
}

TEST_F(SlotsOfAJob, ScalingDownReleasesAndScalingUpStarts) {
  train();
  EXPECT_THAT(slots_.scale(3, now()), HasSubstr("from 4 to 3"));
  EXPECT_EQ(take(), Texts{"resize 3"});
  install({0, 1, 2});
  slots_.on_dismissed("worker/3.0.0", now());
  EXPECT_TRUE(wake().empty());         // the look for too many: the dismissed one does not count
  EXPECT_EQ(wake(), Texts{"stop 3"});  // it had the grace period to leave by itself
  EXPECT_EQ(wake(), Texts{"kill 3"});  // and another
  EXPECT_TRUE(exit(3, kKilled).empty());
  EXPECT_EQ(slots_.wanted(), 3);
  slots_.scale(4, now());
  EXPECT_EQ(take(), (Texts{"resize 4", "start 3"}));
}

TEST_F(SlotsOfAJob, AWorkerTooManyThatIsNoMemberIsAskedToStop) {
  slots_.start();
  take();
  install({0, 1, 2});
  wake();
  slots_.scale(3, now());
  EXPECT_EQ(take(), Texts{"resize 3"});
  EXPECT_EQ(wake(), Texts{"stop 3"});
}

TEST_F(SlotsOfAJob, ScalingTriesExcludedWorkersAgain) {
  slots_.start();
  take();
  exit(3, {.code = 2});
  EXPECT_EQ(slots_.scale(4, now()), "scaled from 4 to 4 by request");
  EXPECT_EQ(take(), (Texts{"resize 4", "start 3"}));
  EXPECT_EQ(slots_.scale(4, now()), "4 workers are wanted already");
}

TEST_F(SlotsOfAJob, ScalingIsRefusedOutsideOfTheLimitsAndAtTheEnd) {
  train();
  EXPECT_THROW(slots_.scale(1, now()), InvalidInput);
  EXPECT_THROW(slots_.scale(5, now()), InvalidInput);
  slots_.on_training_over(view_of({0, 1, 2, 3}));
  EXPECT_THROW(slots_.scale(3, now()), InvalidInput);
}

TEST_F(SlotsOfAJob, AWorkerWithoutASlotIsStoppedAndStartsWhereThereIsOne) {
  train();
  slots_.on_hosts(3, {{TaskType::worker, 1}}, now());
  EXPECT_EQ(take(), Texts{"stop 1"});
  EXPECT_TRUE(exit(1, {.signal = SIGTERM}).empty());
  slots_.on_hosts(4, {}, now());
  EXPECT_EQ(take(), Texts{"start 1"});
}

TEST_F(SlotsOfAJob, AStartThatTheSystemRefusesForTheMomentIsTriedAgain) {
  train();
  exit(2, kKilled);
  start_error_ = "no process";
  is_shortage_ = true;
  EXPECT_EQ(wake(), Texts{"start 2"});
  EXPECT_EQ(slots_.wake_at(), now() + kStartPause);
  start_error_.clear();
  EXPECT_EQ(wake(), Texts{"start 2"});
  EXPECT_FALSE(slots_.wake_at());
}

TEST_F(SlotsOfAJob, AStartThatFailsForGoodExcludes) {
  train();
  exit(2, kKilled);
  start_error_ = "no such program";
  EXPECT_EQ(wake(), Texts{"start 2"});
  EXPECT_FALSE(slots_.wake_at());
  EXPECT_FALSE(slots_.is_stopped());
}

TEST_F(SlotsOfAJob, TheJobSucceedsWhenTheLastMembersHaveEndedWell) {
  train();
  slots_.on_training_over(view_of({0, 1, 2}));
  EXPECT_TRUE(exit(0, {}).empty());
  EXPECT_TRUE(exit(1, {}).empty());
  EXPECT_EQ(exit(2, {}), Texts{"succeed"});  // worker/3 was no member any more
  EXPECT_TRUE(slots_.is_stopped());
  EXPECT_FALSE(slots_.wake_at());
}

TEST_F(SlotsOfAJob, AMemberThatIsKilledAfterTrainingAloneIsNotMissed) {
  train();
  slots_.on_training_over(view_of({0, 1}));
  EXPECT_TRUE(exit(1, kKilled).empty());
  EXPECT_EQ(exit(0, {}), Texts{"succeed"});
}

TEST_F(SlotsOfAJob, AMemberThatIsKilledAfterTrainingIsMissedWhenAnotherFails) {
  train();
  slots_.on_training_over(view_of({0, 1, 2}));
  exit(1, kKilled);
  EXPECT_TRUE(exit(2, {.code = 1}).empty());
  EXPECT_EQ(wake(), Texts{"fail"});
  EXPECT_TRUE(slots_.is_member_missed());
  ASSERT_EQ(slots_.failures().size(), 1U);
  EXPECT_EQ(slots_.failures().front().id.index, 1);
}

TEST_F(SlotsOfAJob, AChiefThatIsKilledAfterTrainingIsMissed) {
  train();
  slots_.on_training_over(view_of({0, 1}));
  EXPECT_TRUE(exit(0, kKilled).empty());
  EXPECT_EQ(wake(), Texts{"fail"});
  EXPECT_TRUE(slots_.is_member_missed());
}

TEST_F(SlotsOfAJob, AFailureAfterTrainingThatNoKillExplainsIsFinal) {
  train();
  slots_.on_training_over(view_of({0, 1}));
  exit(1, {.code = 1});
  EXPECT_EQ(wake(), Texts{"fail"});
  EXPECT_FALSE(slots_.is_member_missed());
}

TEST_F(SlotsOfAJob, AfterTheStopNothingComes) {
  train();
  exit(1, kKilled);
  slots_.stop();
  EXPECT_FALSE(slots_.wake_at());
  EXPECT_TRUE(exit(2, kKilled).empty());
}

}  // namespace
}  // namespace cohort::launch

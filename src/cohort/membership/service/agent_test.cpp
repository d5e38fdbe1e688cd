#include "cohort/membership/service/agent.h"

#include <gmock/gmock.h>
#include <time.h>

#include <future>

#include "cohort/base/message_of_test.h"
#include "cohort/membership/service/elastic_job_test.h"

namespace cohort::membership {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = MembershipEvent::Kind;

const std::string kAgreement = R"({"batch": 64, "seed": 1})";

std::future<View> enter(Worker& worker, const std::string& agreement = kAgreement) {
  return std::async(std::launch::async,
                    [&worker, agreement] { return worker->enter(agreement, soon()); });
}

std::future<View> next_view(Worker& worker, std::int64_t stage, const std::string& why = "") {
  return std::async(std::launch::async,
                    [&worker, stage, why] { return worker->next_view(stage, why, soon()); });
}

std::future<bool> finish(Worker& worker, std::int64_t stage) {
  return std::async(std::launch::async, [&worker, stage] { return worker->finish(stage, soon()); });
}

// `count` workers in their first view.
std::vector<std::unique_ptr<Worker>> start(ElasticJob& job, int count) {
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::future<View>> views;
  for (int i = 0; i < count; ++i) workers.push_back(std::make_unique<Worker>(job, i));
  for (auto& worker : workers) views.push_back(enter(*worker));
  for (auto& view : views) EXPECT_EQ(view.get().size(), count);
  return workers;
}

TEST(AgentTest, TheFirstViewIsTheSameForAll) {
  ElasticJob job({.least = 2, .most = 4, .initial = 3});
  Worker a(job, 0), b(job, 1), c(job, 2);
  auto first = enter(a), second = enter(b), third = enter(c);
  View view = first.get();
  EXPECT_EQ(view, second.get());
  EXPECT_EQ(view, third.get());
  EXPECT_EQ(view.size(), 3);
  EXPECT_EQ(view.stage(), kNoState);
  EXPECT_GE(view.rank_of("worker/1.0.0"), 0);
  EXPECT_EQ(a->planned_change(), 0u);
  a->expect_commit(soon());
  EXPECT_EQ(ids_of(job.wait_event(Kind::installed).view), ids_of(view));
  EXPECT_EQ(job.service().status().phase, Coordinator::Phase::training);
}

TEST(AgentTest, ADeathThatTheLauncherTellsOfMakesTheOthersDropTheViewAndGoOn) {
  ElasticJob job({.least = 2, .most = 3, .initial = 3});
  auto workers = start(job, 3);
  job.service().lost("worker/1", 0, "it was killed by signal 9");
  for (int i : {0, 2}) {
    EXPECT_THAT(workers[i]->wait_drop().why, HasSubstr("killed by signal 9"));
    EXPECT_THAT(message_of<ViewEnded>([&] { (*workers[i])->expect_commit(soon()); }),
                HasSubstr("killed by signal 9"));
  }
  auto a = next_view(*workers[0], 5), b = next_view(*workers[2], 4, "all_reduce broke");
  View view = a.get();
  EXPECT_EQ(view, b.get());
  EXPECT_EQ(view.size(), 2);
  EXPECT_EQ(view.rank_of("worker/1.0.0"), -1);
  EXPECT_EQ(view.stage(), 5);
  EXPECT_TRUE(view.is_behind(view.rank_of("worker/2.0.0")));
  EXPECT_EQ(workers[0]->drops(), 1u);
  (*workers[0])->expect_commit(soon());
  (*workers[0])->resumed(17, milliseconds(84), true);
  MembershipEvent resumed = job.wait_event(Kind::resumed);
  EXPECT_EQ(resumed.step, 17);
  EXPECT_EQ(resumed.duration, milliseconds(84));
  EXPECT_TRUE(resumed.redone);
}

TEST(AgentTest, EventsAreToldAtOnceThoughNoMemberHasAnythingToSay) {
  ElasticJob job({.least = 1, .most = 2, .initial = 2, .lease = seconds(40)});
  auto workers = start(job, 2);
  std::this_thread::sleep_for(milliseconds(600));  // the next beats are far away now
  Time begin = steady_now();
  job.service().lost("worker/1", 0, "it was killed");
  EXPECT_EQ(job.wait_event(Kind::evicted).member, "worker/1.0.0");
  EXPECT_LT(steady_now() - begin, seconds(2));
}

TEST(AgentTest, CollectivesThatBreakMakeANewViewThoughNoMemberIsKnownToBeLost) {
  ElasticJob job({.least = 2, .most = 2, .initial = 2});
  auto workers = start(job, 2);
  auto a = next_view(*workers[0], 3, "all_reduce #7 failed");
  EXPECT_THAT(workers[1]->wait_drop().why, HasSubstr("all_reduce #7 failed"));
  auto b = next_view(*workers[1], 3);
  EXPECT_EQ(a.get(), b.get());
}

TEST(AgentTest, ANewcomerIsAPlannedChangeThatDropsNothing) {
  ElasticJob job({.least = 1, .most = 3, .initial = 2});
  auto workers = start(job, 2);
  Worker newcomer(job, 2);
  auto entered = enter(newcomer);
  job.wait_event(Kind::proposed, 1);
  while ((*workers[0])->planned_change() == 0 || (*workers[1])->planned_change() == 0)
    std::this_thread::sleep_for(milliseconds(1));
  (*workers[0])->expect_commit(soon());
  auto a = next_view(*workers[0], 8), b = next_view(*workers[1], 8);
  View view = entered.get();
  EXPECT_EQ(view, a.get());
  EXPECT_EQ(view, b.get());
  EXPECT_EQ(view.size(), 3);
  EXPECT_EQ(view.rank_of("worker/2.0.0"), 2);
  EXPECT_TRUE(view.is_behind(2));
  EXPECT_EQ(view.stage(), 8);
  EXPECT_EQ((*workers[0])->planned_change(), 0u);
  EXPECT_EQ(workers[0]->drops() + workers[1]->drops(), 0u);
}

TEST(AgentTest, AReportBeforeTheProposalArrivesIsSentWithIt) {
  ElasticJob job({.least = 1, .most = 3, .initial = 2});
  auto workers = start(job, 2);
  // Both were told by another way that a change is planned.
  auto a = next_view(*workers[0], 8), b = next_view(*workers[1], 8);
  Worker newcomer(job, 2);
  EXPECT_EQ(enter(newcomer).get().size(), 3);
  EXPECT_EQ(a.get(), b.get());
}

TEST(AgentTest, ASmallerJobDismissesItsLastRank) {
  ElasticJob job({.least = 1, .most = 3, .initial = 3});
  auto workers = start(job, 3);
  std::string last = job.service().status().view.members[2].info.task;
  job.service().resize(2, "cohort scale");
  EXPECT_EQ(job.service().status().target, 2);
  std::vector<std::future<View>> views;
  for (auto& worker : workers) views.push_back(next_view(*worker, 4));
  for (std::size_t i = 0; i < 3; ++i) {
    if ((*workers[i])->info().task == last)
      EXPECT_THAT(message_of<Dismissed>([&] { views[i].get(); }), HasSubstr("2 workers"));
    else
      EXPECT_EQ(views[i].get().size(), 2);
  }
  EXPECT_EQ(job.wait_event(Kind::dismissed).member, last + ".0.0");
  EXPECT_THROW(job.service().resize(9, "cohort scale"), InvalidInput);
}

TEST(AgentTest, AWorkerThatWasStartedOtherwiseIsRefusedByWhatDiffers) {
  ElasticJob job({.least = 1, .most = 2, .initial = 1});
  auto workers = start(job, 1);
  Worker other(job, 1);
  std::string message =
      message_of<InvalidInput>([&] { other->enter(R"({"batch": 32, "seed": 1})", soon()); });
  EXPECT_THAT(message, HasSubstr("worker/1"));
  EXPECT_THAT(message, HasSubstr("'batch' is 32 here, but 64 elsewhere"));
  EXPECT_EQ(job.wait_event(Kind::refused).member, "worker/1.0.0");
}

TEST(AgentTest, TrainingIsOverWhenAllHaveFinished) {
  ElasticJob job({.least = 1, .most = 2, .initial = 2});
  auto workers = start(job, 2);
  auto a = finish(*workers[0], 9);
  EXPECT_EQ(a.wait_for(milliseconds(100)), std::future_status::timeout);
  auto b = finish(*workers[1], 9);
  EXPECT_TRUE(a.get());
  EXPECT_TRUE(b.get());
  job.wait_event(Kind::over);
  for (auto& worker : workers) (*worker)->leave(soon());
  Worker late(job, 1, 1);
  EXPECT_THAT(message_of<Dismissed>([&] { late->enter(kAgreement, soon()); }),
              HasSubstr("training is over"));
}

TEST(AgentTest, ADeathWhileOthersHaveFinishedMakesThemGoOn) {
  ElasticJob job({.least = 1, .most = 3, .initial = 3});
  auto workers = start(job, 3);
  auto a = finish(*workers[0], 9), b = finish(*workers[1], 9);
  job.service().lost("worker/2", 0, "it was killed");
  EXPECT_FALSE(a.get());
  EXPECT_FALSE(b.get());
  auto c = next_view(*workers[0], 9), d = next_view(*workers[1], 9);
  EXPECT_EQ(c.get(), d.get());
  a = finish(*workers[0], 9), b = finish(*workers[1], 9);
  EXPECT_TRUE(a.get());
  EXPECT_TRUE(b.get());
}

TEST(AgentTest, AWorkerThatLeavesIsNotWaitedFor) {
  ElasticJob job({.least = 1, .most = 2, .initial = 2, .lease = seconds(20)});
  auto workers = start(job, 2);
  (*workers[1])->leave(soon());
  EXPECT_EQ(next_view(*workers[0], 2, workers[0]->wait_drop().why).get().size(), 1);
}

TEST(AgentTest, WhatWasCommittedShowsInTheStatus) {
  ElasticJob job({.least = 1, .most = 1, .lease = milliseconds(200)});
  auto workers = start(job, 1);
  (*workers[0])->committed(12, 7, 850.5);
  Deadline deadline = soon();
  MemberStatus member;
  while (member.step != 7 && !deadline.expired()) {
    member = job.service().status().members.at(0);
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(member.step, 7);
  EXPECT_EQ(member.stage, 12);
  EXPECT_EQ(member.rate, 850.5);
}

TEST(AgentTest, AViewThatIsOverBeforeItWasSeenIsNotReturned) {
  // Deaths in a row: whatever next_view() returns is alive then, or dropped later.
  ElasticJob job({.least = 1, .most = 5, .initial = 5});
  auto workers = start(job, 5);
  auto a = next_view(*workers[0], 1, "broke"), b = next_view(*workers[1], 1, "broke");
  for (int i : {2, 3, 4}) job.service().lost("worker/" + std::to_string(i), 0, "killed");
  EXPECT_EQ(a.get().size(), 2);
  EXPECT_EQ(b.get().size(), 2);
}

TEST(AgentTest, ExpectCommitIsCheap) {
  ElasticJob job({.least = 1, .most = 1});
  auto workers = start(job, 1);
  Agent& agent = *workers[0]->operator->();
  constexpr int kCalls = 1'000'000;
  auto processor_time = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
  };
  double begin = processor_time();
  for (int i = 0; i < kCalls; ++i) agent.expect_commit(Deadline::never());
  double each = (processor_time() - begin) / kCalls;
  std::printf("expect_commit: %.0f ns\n", each);
  EXPECT_LT(each, 2000);
}

TEST(AgentTest, AChangeOfViewTakesMilliseconds) {
  constexpr int kRounds = 20;
  std::vector<double> drops, views;
  for (int round = 0; round < kRounds; ++round) {
    ElasticJob job({.least = 1, .most = 4, .initial = 4});
    auto workers = start(job, 4);
    Time begin = steady_now();
    job.service().lost("worker/3", 0, "it was killed");
    Time dropped{0};
    std::vector<std::future<View>> next;
    for (int i = 0; i < 3; ++i) {
      next.push_back(std::async(std::launch::async, [&, i] {
        std::string why = workers[i]->wait_drop().why;
        return (*workers[i])->next_view(round, why, soon());
      }));
    }
    for (auto& view : next) EXPECT_EQ(view.get().size(), 3);
    views.push_back(std::chrono::duration<double, std::milli>(steady_now() - begin).count());
    for (int i = 0; i < 3; ++i) dropped = std::max(dropped, workers[i]->wait_drop().at);
    drops.push_back(std::chrono::duration<double, std::milli>(dropped - begin).count());
  }
  std::sort(drops.begin(), drops.end());
  std::sort(views.begin(), views.end());
  std::printf(
      "lost() to the last on_drop: median %.2f ms, worst %.2f; to the last next view: median %.2f "
      "ms, worst %.2f\n",
      drops[kRounds / 2], drops.back(), views[kRounds / 2], views.back());
  EXPECT_LT(views[kRounds / 2], 500);
}

}  // namespace
}  // namespace cohort::membership

#include "cohort/service/jobs/job_manager.h"

#include <gmock/gmock.h>

#include <cerrno>

#include "cohort/base/message_of_test.h"
#include "cohort/base/soon_test.h"
#include "cohort/service/jobs/manager_fixture_test.h"
#include "cohort/service/store/sqlite.h"

namespace cohort::service {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(JobManager, AJobGoesFromQueuedToItsEnd) {
  TestService service;
  const std::string id = service.operations.submit(resolved(spec("a", 2)), "ann", "").id;
  service.settle();
  EXPECT_EQ(service.row(id).state, JobState::starting);
  ASSERT_EQ(service.world.of(id).size(), 1u);
  EXPECT_EQ(service.world.of(id)[0]->request.folder, service.folders.attempt(id, 1));
  EXPECT_EQ(service.manager->free().cores, 6);
  service.set(id, AttemptState::running);
  service.world.of(id)[0]->status.tasks = {
      {.name = "worker:0", .host = "here", .state = "running"}};
  service.settle(2000);
  EXPECT_EQ(service.row(id).state, JobState::running);
  EXPECT_EQ(service.operations.store().tasks(id, 1).at(0).state, "running");
  service.set(id, AttemptState::failed);
  service.world.of(id)[0]->status.failure = "worker:0 ended with exit code 3";
  service.world.of(id)[0]->status.exit_code = 3;
  service.settle(2000);
  const JobRow row = service.row(id);
  EXPECT_EQ(row.state, JobState::failed);
  EXPECT_EQ(row.reason, "worker:0 ended with exit code 3");
  EXPECT_EQ(row.exit_code, 3);
  EXPECT_EQ(row.ended, service.now.utc);
  EXPECT_EQ(service.manager->free().cores, 8);
  EXPECT_FALSE(service.manager->has_unfinished());
  EXPECT_THAT(service.events(id), ElementsAre("submitted", "starting", "started", "ended"));
}

TEST(JobManager, WaitingJobsSayWhy) {
  TestService service;
  const std::string a = service.operations.submit(resolved(spec("a", 6)), "ann", "").id;
  const std::string b = service.operations.submit(resolved(spec("b", 4)), "ann", "").id;
  const std::string c = service.operations.submit(resolved(spec("c", 4)), "ann", "").id;
  service.settle();
  EXPECT_EQ(service.row(b).reason, "waits for 4 cores: 2 are free, 'a' holds 6");
  EXPECT_EQ(service.row(c).reason, "second in line");
  service.operations.stop(b);
  service.settle();
  EXPECT_EQ(service.row(b).state, JobState::stopped);
  EXPECT_THAT(service.row(c).reason, HasSubstr("waits for 4 cores"));
  service.set(a, AttemptState::succeeded);
  service.settle(2000);
  EXPECT_EQ(service.row(a).state, JobState::succeeded);
  EXPECT_EQ(service.row(c).state, JobState::starting);
}

TEST(JobManager, WhatAnEngineWaitsForIsSaidAndTakesNoTimeOfMaxRun) {
  TestService service;
  jobspec::JobSpec asked = spec("a", 1);
  asked.max_run = std::chrono::seconds(60);
  const std::string id = service.operations.submit(resolved(asked), "ann", "").id;
  service.settle();
  const auto wait_for = [&](const std::string& what) {
    service.world.of(id)[0]->status.waiting = what;
    service.settle(2000);
  };
  wait_for("Slurm job 7 waits: Resources");
  EXPECT_EQ(service.row(id).state, JobState::starting);
  EXPECT_EQ(service.row(id).reason, "Slurm job 7 waits: Resources");
  service.set(id, AttemptState::running);
  wait_for("");
  EXPECT_EQ(service.row(id).state, JobState::running);
  EXPECT_EQ(service.row(id).reason, "");
  service.set(id, AttemptState::starting);  // preempted
  wait_for("Slurm job 7 waits to go on from its checkpoint: Priority");
  service.settle(90'000);
  EXPECT_EQ(service.row(id).state, JobState::running);
  EXPECT_THAT(service.row(id).reason, HasSubstr("waits to go on"));
  EXPECT_THAT(service.events(id), ElementsAre("submitted", "starting", "note", "started", "note"));
}

TEST(JobManager, AStoppedJobEndsAsStopped) {
  TestService service;
  const std::string id = service.operations.submit(resolved(spec("a", 1)), "ann", "").id;
  service.settle();
  service.operations.stop(id);
  service.settle();
  EXPECT_EQ(service.world.of(id)[0]->stops, 1);
  service.settle(2000);
  EXPECT_EQ(service.row(id).state, JobState::stopped);
  EXPECT_EQ(service.row(id).reason, "");
}

// Whatever the clock of the wall does: only time that passed counts.
TEST(JobManager, MaxRunIsMeasuredWithTheSteadyClock) {
  TestService service;
  auto limited = spec("a", 1);
  limited.max_run = std::chrono::seconds(60);
  const std::string id = service.operations.submit(resolved(limited), "ann", "").id;
  service.settle();
  service.set(id, AttemptState::running);
  service.settle(2000);
  service.now.utc += 365LL * 24 * 3600 * 1000;
  service.settle(59000);
  EXPECT_EQ(service.world.of(id)[0]->stops, 0);
  service.now.utc -= 2 * 365LL * 24 * 3600 * 1000;
  EXPECT_EQ(service.manager->pass(service.now),
            service.now.steady + 1000);  // not before, not later
  service.settle(1000);
  EXPECT_EQ(service.world.of(id)[0]->stops, 1);
  service.settle(2000);
  EXPECT_EQ(service.row(id).state, JobState::stopped);
  EXPECT_EQ(service.row(id).reason, "max_run of 60 s has passed");
}

TEST(JobManager, AClockThatJumpsWhileNoServiceRunsEndsNothing) {
  TestService service;
  auto limited = spec("a", 1);
  limited.max_run = std::chrono::seconds(60);
  const std::string id = service.operations.submit(resolved(limited), "ann", "").id;
  service.now.boot = "first";
  service.settle();
  service.set(id, AttemptState::running);
  service.settle(2000);
  service.restart();
  service.now.utc += 365LL * 24 * 3600 * 1000;
  service.settle(59000);
  EXPECT_EQ(service.world.of(id)[0]->stops, 0);
  service.settle(1000);
  EXPECT_EQ(service.world.of(id)[0]->stops, 1);
}

// The machine's own clock began anew: the clock of the day is all that there is.
TEST(JobManager, MaxRunGoesOnAfterTheMachineWasStartedAnew) {
  TestService service;
  auto limited = spec("a", 1);
  limited.max_run = std::chrono::seconds(60);
  const std::string id = service.operations.submit(resolved(limited), "ann", "").id;
  service.now.boot = "first";
  service.settle();
  service.set(id, AttemptState::running);
  service.settle(2000);
  service.restart();
  service.now.steady = 10;
  service.now.boot = "second";
  service.settle(59000);
  service.now.utc += 1000;
  EXPECT_EQ(service.world.of(id)[0]->stops, 0);
  service.restart();
  service.settle();
  EXPECT_EQ(service.world.of(id)[0]->stops, 1);
}

TEST(JobManager, ElasticJobsGrowAndGiveBack) {
  TestService service;
  auto elastic = spec("e", 1);
  elastic.elastic = jobspec::ElasticRange{2, 6};
  const std::string other = service.operations.submit(resolved(spec("a", 5)), "ann", "").id;
  const std::string id = service.operations.submit(resolved(elastic), "ann", "").id;
  service.settle();
  EXPECT_EQ(service.row(id).instances, 3);
  service.set(id, AttemptState::running);
  service.set(other, AttemptState::succeeded);
  service.settle(2000);
  auto& attempt = *service.world.of(id)[0];
  EXPECT_THAT(attempt.scales, ElementsAre(6));
  EXPECT_EQ(service.row(id).instances, 6);
  attempt.status.workers = 6;
  const std::string next = service.operations.submit(resolved(spec("b", 4)), "bob", "").id;
  service.settle();
  EXPECT_THAT(attempt.scales, ElementsAre(6, 4));
  EXPECT_THAT(service.row(next).reason, HasSubstr("'e' gives back 2 cores"));
  attempt.status.workers = 4;
  service.settle(2000);
  EXPECT_EQ(service.row(id).instances, 4);
  EXPECT_EQ(service.row(next).state, JobState::starting);
  service.operations.scale(id, 3);
  service.settle();
  EXPECT_THAT(attempt.scales, ElementsAre(6, 4, 3));
}

TEST(JobManager, EnginesWithoutAQueueGetTheirJobsAtOnce) {
  TestService service;
  service.abilities.needs_queue = false;
  service.restart();
  const std::string a = service.operations.submit(resolved(spec("a", 100)), "ann", "").id;
  service.settle();
  EXPECT_EQ(service.world.of(a).size(), 1u);
  EXPECT_EQ(service.row(a).state, JobState::starting);
}

TEST(JobManager, QueuedJobsCostNoLooks) {
  TestService service;
  const std::string a = service.operations.submit(resolved(spec("a", 8)), "ann", "").id;
  for (int i = 0; i < 50; ++i) service.operations.submit(resolved(spec("b", 8)), "ann", "");
  service.settle();
  service.set(a, AttemptState::running);
  service.settle(2000);
  const int before = service.world.observes;
  for (int i = 0; i < 10; ++i) service.settle(100);  // woken for nothing
  EXPECT_EQ(service.world.observes, before);
  service.settle(2000);
  EXPECT_EQ(service.world.observes, before + 1);
}

// The service is killed before each change that it makes, one after the other, and before and
// after each start: every job has one attempt, runs once, and ends as it should.
TEST(JobManager, EachJobStartsOnceWhereverTheServiceIsKilled) {
  bool reached = true;
  for (int kill_at = 1; reached; ++kill_at) {
    reached = false;
    TestService service;
    int changes = 0;
    const auto count = [&] {
      if (++changes != kill_at) return;
      reached = true;
      throw Killed();
    };
    service.before_change = count;
    service.world.before_submit = service.world.after_submit = [&](const auto&) { count(); };
    const std::string a = service.operations.submit(resolved(spec("a", 6)), "ann", "").id;
    const std::string b = service.operations.submit(resolved(spec("b", 6)), "ann", "").id;
    const std::string c = service.operations.submit(resolved(spec("c", 2)), "bob", "").id;
    const auto round = [&] {
      service.now.steady += 2000;
      service.now.utc += 2000;
      for (int i = 0; i < 10; ++i) try {
          if (service.manager->pass(service.now) > service.now.steady) break;
        } catch (const Killed&) {
          service.restart();
        }
    };
    round();
    service.operations.stop(c);
    for (int i = 0; i < 12; ++i) {
      round();
      for (auto& [folder, attempt] : service.world.attempts) {
        auto& state = attempt.status.state;
        if (state == AttemptState::starting)
          state = AttemptState::running;
        else if (state == AttemptState::running && i > 4)
          state = AttemptState::succeeded;
      }
    }
    for (const std::string& id : {a, b}) {
      EXPECT_EQ(service.row(id).state, JobState::succeeded) << "killed at " << kill_at;
      EXPECT_EQ(service.world.of(id).size(), 1u) << "killed at " << kill_at;
      EXPECT_EQ(service.operations.store().attempts(id).size(), 1u);
      EXPECT_THAT(service.events(id), ElementsAre("submitted", "starting", "started", "ended"));
    }
    EXPECT_EQ(service.row(c).state, JobState::stopped) << "killed at " << kill_at;
    EXPECT_LE(service.world.of(c).size(), 1u);
    ASSERT_LT(kill_at, 200);
  }
}

// A disk that is full for a while: changes fail, and nothing is lost or done twice.
TEST(JobManager, AfterAFullDiskItGoesOnFromTheStore) {
  TestService service;
  const std::string id = service.operations.submit(resolved(spec("a", 1)), "ann", "").id;
  service.before_change = [] { throw SystemError("writing the run store", ENOSPC); };
  EXPECT_THROW(service.manager->pass(service.now), SystemError);
  EXPECT_THROW(service.manager->pass(service.now), SystemError);
  EXPECT_EQ(service.world.submits, 0);
  service.before_change = {};
  service.settle();
  EXPECT_EQ(service.world.of(id).size(), 1u);
}

TEST(JobManager, ItsThreadIsWokenAndEnds) {
  TestService service;
  service.manager->start();
  const std::string id = service.operations.submit(resolved(spec("a", 1)), "ann", "").id;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (service.row(id).state == JobState::queued && std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  EXPECT_EQ(service.row(id).state, JobState::starting);
  service.manager->stop();
}

}  // namespace
}  // namespace cohort::service

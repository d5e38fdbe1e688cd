#include "cohort/service/jobs/job_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>

#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/service/jobs/fake_engine_test.h"
#include "cohort/service/jobs/job_operations.h"

namespace cohort::service {
namespace {

using engine::AttemptState;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

jobspec::JobSpec spec(const std::string& name, double cores) {
  jobspec::JobSpec spec;
  spec.name = name;
  spec.program = {"true"};
  spec.cores = cores;
  return spec;
}

jobspec::ResolvedJob resolved(const jobspec::JobSpec& spec) {
  jobspec::ResolvedJob job;
  job.spec = spec;
  job.program = spec.program;
  job.instance = {
      .cores = spec.cores.value_or(1), .memory_bytes = 1 << 20, .gpus = spec.gpus.value_or(0)};
  if (spec.elastic) job.instances = spec.elastic->least;
  return job;
}

// A service without its HTTP part: a machine of 8 cores, clocks that the test moves.
struct TestService {
  ScratchFolder scratch;
  RunFolders folders{scratch.path()};
  FakeWorld world;
  engine::Abilities abilities{.scales = true, .needs_queue = true};
  Instant now{.steady = 1000, .utc = 1'800'000'000'000};
  std::function<void()> before_change;
  std::unique_ptr<JobManager> manager;
  JobOperations operations{folders, resolved, [this](std::string_view id) {
                             if (manager) manager->wake(id);
                           }};

  void restart() {
    JobManager::Engines engines;
    engines["local"] = std::make_unique<FakeEngine>(world, abilities);
    manager = std::make_unique<JobManager>(
        JobManager::Options{.folders = folders,
                            .machine = {.cores = 8, .memory_bytes = 1 << 30, .gpus = 2},
                            .find_source = {},
                            .before_change =
                                [this] {
                                  if (before_change) before_change();
                                }},
        std::move(engines));
  }
  TestService() { restart(); }

  // Rounds, `millis` later, until the manager has nothing to do at once.
  void settle(std::int64_t millis = 0) {
    now.steady += millis;
    now.utc += millis;
    for (int i = 0; i < 20; ++i)
      if (manager->pass(now) > now.steady) return;
    ADD_FAILURE() << "the manager never rests";
  }
  JobRow row(const std::string& id) { return *operations.store().find_job(id); }
  void set(const std::string& id, AttemptState state) { world.of(id).back()->status.state = state; }
  std::vector<std::string> events(const std::string& id) {
    std::vector<std::string> kinds;
    for (const auto& event : operations.store().events_after(0, id, "", 100))
      kinds.push_back(event.kind);
    return kinds;
  }
};

TEST(JobManager, AJobGoesFromQueuedToItsEnd) {
  TestService service;
  const std::string id = service.operations.submit(spec("a", 2), "ann", "").id;
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
  const std::string a = service.operations.submit(spec("a", 6), "ann", "").id;
  const std::string b = service.operations.submit(spec("b", 4), "ann", "").id;
  const std::string c = service.operations.submit(spec("c", 4), "ann", "").id;
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

TEST(JobManager, AStoppedJobEndsAsStopped) {
  TestService service;
  const std::string id = service.operations.submit(spec("a", 1), "ann", "").id;
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
  const std::string id = service.operations.submit(limited, "ann", "").id;
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

TEST(JobManager, WhatAnEngineRefusesFailsWithItsSentence) {
  TestService service;
  service.world.before_submit = [](const auto&) { throw InvalidInput("no such program: 'tru'"); };
  const std::string id = service.operations.submit(spec("a", 1), "ann", "").id;
  service.settle();
  EXPECT_EQ(service.row(id).state, JobState::failed);
  EXPECT_EQ(service.row(id).reason, "no such program: 'tru'");
  EXPECT_EQ(service.manager->free().cores, 8);
}

TEST(JobManager, WhatTheSystemRefusesIsTriedAgainAndSaid) {
  TestService service;
  service.world.before_submit = [](const auto&) {
    throw SystemError("starting a process", EAGAIN);
  };
  const std::string id = service.operations.submit(spec("a", 1), "ann", "").id;
  service.settle();
  EXPECT_EQ(service.row(id).state, JobState::starting);
  EXPECT_THAT(service.row(id).reason, HasSubstr("tried again in 1 s"));
  service.settle(1000);
  EXPECT_EQ(service.world.submits, 2);
  service.settle(1999);
  EXPECT_EQ(service.world.submits, 2);
  service.world.before_submit = {};
  service.settle(1);
  service.set(id, AttemptState::running);
  service.settle(2000);
  EXPECT_EQ(service.row(id).state, JobState::running);
  EXPECT_EQ(service.row(id).reason, "");
}

TEST(JobManager, ALostAttemptIsFollowedByAnotherWhileRestartsAreLeft) {
  TestService service;
  auto restarted = spec("a", 1);
  restarted.restarts = 1;
  const std::string id = service.operations.submit(restarted, "ann", "").id;
  service.settle();
  service.set(id, AttemptState::running);
  service.settle(2000);
  service.world.attempts.clear();  // the folder was deleted underneath
  service.settle(2000);
  ASSERT_EQ(service.world.of(id).size(), 1u);
  EXPECT_EQ(service.world.of(id)[0]->request.id, id + ".2");
  EXPECT_TRUE(service.world.of(id)[0]->request.resume);
  service.set(id, AttemptState::lost);
  service.settle(2000);
  EXPECT_EQ(service.row(id).state, JobState::failed);
  EXPECT_EQ(service.row(id).reason, "the machine or its launcher died");
}

TEST(JobManager, AResumedJobGoesOnInANewAttempt) {
  TestService service;
  const std::string id = service.operations.submit(spec("a", 1), "ann", "").id;
  service.settle();
  service.operations.stop(id);
  service.settle();
  service.settle(2000);
  ASSERT_EQ(service.row(id).state, JobState::stopped);
  service.operations.resume(id);
  service.settle();
  EXPECT_EQ(service.world.attempts.at(service.folders.attempt(id, 2).string()).request.resume,
            true);
  EXPECT_EQ(service.row(id).state, JobState::starting);
}

TEST(JobManager, ElasticJobsGrowAndGiveBack) {
  TestService service;
  auto elastic = spec("e", 1);
  elastic.elastic = jobspec::ElasticRange{2, 6};
  const std::string other = service.operations.submit(spec("a", 5), "ann", "").id;
  const std::string id = service.operations.submit(elastic, "ann", "").id;
  service.settle();
  EXPECT_EQ(service.row(id).instances, 3);
  service.set(id, AttemptState::running);
  service.set(other, AttemptState::succeeded);
  service.settle(2000);
  auto& attempt = *service.world.of(id)[0];
  EXPECT_THAT(attempt.scales, ElementsAre(6));
  EXPECT_EQ(service.row(id).instances, 6);
  attempt.status.workers = 6;
  const std::string next = service.operations.submit(spec("b", 4), "bob", "").id;
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
  const std::string a = service.operations.submit(spec("a", 100), "ann", "").id;
  service.settle();
  EXPECT_EQ(service.world.of(a).size(), 1u);
  EXPECT_EQ(service.row(a).state, JobState::starting);
}

TEST(JobManager, QueuedJobsCostNoLooks) {
  TestService service;
  const std::string a = service.operations.submit(spec("a", 8), "ann", "").id;
  for (int i = 0; i < 50; ++i) service.operations.submit(spec("b", 8), "ann", "");
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
    const std::string a = service.operations.submit(spec("a", 6), "ann", "").id;
    const std::string b = service.operations.submit(spec("b", 6), "ann", "").id;
    const std::string c = service.operations.submit(spec("c", 2), "bob", "").id;
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
  const std::string id = service.operations.submit(spec("a", 1), "ann", "").id;
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
  const std::string id = service.operations.submit(spec("a", 1), "ann", "").id;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (service.row(id).state == JobState::queued && std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  EXPECT_EQ(service.row(id).state, JobState::starting);
  service.manager->stop();
}

}  // namespace
}  // namespace cohort::service

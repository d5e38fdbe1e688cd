#include <gmock/gmock.h>

#include <cerrno>

#include "cohort/base/files/files.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/soon_test.h"
#include "cohort/jobspec/source/source_package.h"
#include "cohort/service/jobs/manager_fixture_test.h"
#include "cohort/service/jobs/source_unpacking.h"
#include "cohort/service/store/source_store.h"
#include "cohort/service/store/sqlite.h"

// What the job manager makes of faults: of engines, of the machine, of the run store.
namespace cohort::service {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(JobManager, OneThatCannotBeLookedAtDoesNotStopTheOthers) {
  TestService service;
  const std::string a = service.operations.submit(resolved(spec("a", 1)), "ann", "").id;
  const std::string b = service.operations.submit(resolved(spec("b", 1)), "bob", "").id;
  service.settle();
  service.set(a, AttemptState::running);
  service.set(b, AttemptState::succeeded);
  bool damaged = true;
  service.world.before_observe = [&](const std::filesystem::path& folder) {
    if (damaged && folder == service.folders.attempt(a, 1)) throw std::runtime_error("no record");
  };
  service.settle(2000);
  EXPECT_EQ(service.row(a).state, JobState::starting);
  EXPECT_EQ(service.row(b).state, JobState::succeeded);
  damaged = false;
  service.settle(2000);
  EXPECT_EQ(service.row(a).state, JobState::running);
}

TEST(JobManager, WordsOfAProgramThatAreNoTextEndItsJobAllTheSame) {
  TestService service;
  const std::string id = service.operations.submit(resolved(spec("a", 1)), "ann", "").id;
  service.settle();
  service.world.of(id)[0]->status.failure = "rank 1 said \xff\xfe";
  service.set(id, AttemptState::failed);
  service.settle(2000);
  EXPECT_EQ(service.row(id).state, JobState::failed);
}

TEST(JobManager, RowsThatItCannotReadCostTheirJobsOnly) {
  TestService service;
  const std::string ended = service.operations.submit(resolved(spec("a", 1)), "ann", "").id;
  const std::string queued = service.operations.submit(resolved(spec("b", 1)), "ann", "").id;
  const std::string bare = service.operations.submit(resolved(spec("c", 1)), "ann", "").id;
  const std::string good = service.operations.submit(resolved(spec("d", 1)), "ann", "").id;
  auto& database = service.operations.store().database();
  database.execute(fmt::format("UPDATE job_texts SET resolved = 'null' WHERE job IN ('{}', '{}')",
                               ended, queued));
  database.execute(
      fmt::format("UPDATE jobs SET state = 'failed', started = 1, ended = 2 "
                  "WHERE id = '{}'",
                  ended));
  database.execute(fmt::format("UPDATE jobs SET state = 'running' WHERE id = '{}'", bare));
  service.settle();
  EXPECT_EQ(service.row(queued).state, JobState::failed);
  EXPECT_EQ(service.row(bare).reason, "the run store has no attempt of it");
  EXPECT_EQ(service.row(good).state, JobState::starting);
}

TEST(JobManager, WhatAnEngineRefusesFailsWithItsSentence) {
  TestService service;
  service.world.before_submit = [](const auto&) { throw InvalidInput("no such program: 'tru'"); };
  const std::string id = service.operations.submit(resolved(spec("a", 1)), "ann", "").id;
  service.settle();
  EXPECT_EQ(service.row(id).state, JobState::failed);
  EXPECT_EQ(service.row(id).reason, "no such program: 'tru'");
  EXPECT_EQ(service.manager->free().cores, 8);
}

TEST(JobManager, AJobWhoseSourceIsBeingUnpackedHoldsNoOtherUp) {
  TestService service;
  auto packed = spec("a", 1);
  packed.source = std::string(64, 'a');
  const std::string a = service.operations.submit(resolved(packed), "ann", "").id;
  const std::string b = service.operations.submit(resolved(spec("b", 1)), "ann", "").id;
  service.settle();
  EXPECT_TRUE(service.world.of(a).empty());
  EXPECT_EQ(service.world.of(b).size(), 1u);
  service.source = "/unpacked";
  service.settle(200);
  ASSERT_EQ(service.world.of(a).size(), 1u);
  EXPECT_EQ(service.world.of(a)[0]->request.source, "/unpacked");
  EXPECT_EQ(service.row(a).attempt, 1);
}

TEST(SourceUnpacking, GivesTheFolderOrSaysWhyNot) {
  const ScratchFolder scratch;
  const RunFolders folders{scratch.path() / "home"};
  std::filesystem::create_directories(scratch.path() / "program");
  write_file_atomically(scratch.path() / "program" / "main.py", "pass");
  const auto packed = jobspec::pack_source(scratch.path() / "program");
  std::filesystem::create_directories(folders.sources());
  SourceUnpacking unpacking(folders);
  const auto find = [&] {
    const Deadline limit = soon();
    std::optional<std::filesystem::path> place;
    while (!place && !limit.expired()) place = unpacking.find(packed.id);
    return place.value_or("");
  };
  write_file_atomically(source_file(folders, packed.id), "broken");
  EXPECT_THROW(find(), InvalidInput);
  write_file_atomically(source_file(folders, packed.id), packed.archive);
  EXPECT_TRUE(std::filesystem::exists(find() / "main.py"));
  EXPECT_TRUE(std::filesystem::exists(find() / "main.py"));
}

TEST(JobManager, WhatTheSystemRefusesIsTriedAgainAndSaid) {
  TestService service;
  service.world.before_submit = [](const auto&) {
    throw SystemError("starting a process", EAGAIN);
  };
  const std::string id = service.operations.submit(resolved(spec("a", 1)), "ann", "").id;
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

TEST(JobManager, AJobThatTheSystemRefusesCanBeStopped) {
  TestService service;
  service.world.before_submit = [](const auto&) {
    throw SystemError("starting a process", EAGAIN);
  };
  const std::string id = service.operations.submit(resolved(spec("a", 1)), "ann", "").id;
  service.settle();
  EXPECT_EQ(service.row(id).state, JobState::starting);
  service.operations.stop(id);
  service.settle();
  EXPECT_EQ(service.row(id).state, JobState::stopped);
  EXPECT_EQ(service.row(id).reason, "stopped before it started");
  EXPECT_EQ(service.operations.store().attempts(id).back().state, "stopped");
  EXPECT_EQ(service.manager->free().cores, 8);
}

TEST(JobManager, AnOutputFolderThatCannotBeMadeFailsTheJob) {
  TestService service;
  auto asked = spec("a", 1);
  asked.output = "/dev/null/results";
  const std::string id = service.operations.submit(resolved(asked), "ann", "").id;
  service.settle();
  EXPECT_EQ(service.row(id).state, JobState::failed);
  EXPECT_THAT(service.row(id).reason, HasSubstr("/dev/null"));
  EXPECT_EQ(service.manager->free().cores, 8);
}

TEST(JobManager, ALostAttemptIsFollowedByAnotherWhileRestartsAreLeft) {
  TestService service;
  auto restarted = spec("a", 1);
  restarted.restarts = 1;
  const std::string id = service.operations.submit(resolved(restarted), "ann", "").id;
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
  const std::string id = service.operations.submit(resolved(spec("a", 1)), "ann", "").id;
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

}  // namespace
}  // namespace cohort::service

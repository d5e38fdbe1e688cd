#include "cohort/service/store/run_store.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cmath>
#include <ctime>
#include <limits>
#include <thread>

#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/sanitized_test.h"
#include "cohort/service/store/sqlite.h"

namespace cohort::service {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

JobRow job_with_id(const std::string& id) {
  JobRow job;
  job.id = id;
  job.name = "name of " + id;
  job.user = "ada";
  job.queue = "default";
  job.engine = "local";
  job.spec = R"({"name":"x"})";
  job.resolved = R"({"instances":1})";
  job.tags = R"({"team":"vision","x":"1"})";
  job.submitted = 1000;
  return job;
}

std::vector<std::string> ids(const std::vector<JobRow>& jobs) {
  std::vector<std::string> ids;
  for (const auto& job : jobs) ids.push_back(job.id);
  return ids;
}

TEST(RunStore, KeepsAJob) {
  ScratchFolder root;
  JobRow job = job_with_id("20261116-190102-aaaaaa");
  job.priority = -7;
  job.reason = "Waits for 2 cores.";
  job.pinned = true;
  job.exit_code = 0;
  job.progress = 0.25;
  job.eta = 77;
  job.request_id = "r1";
  RunStore(root.path()).add_job(job);
  RunStore store(root.path());
  const auto found = store.find_job(job.id);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, job.name);
  EXPECT_EQ(found->priority, -7);
  EXPECT_EQ(found->reason, job.reason);
  EXPECT_EQ(found->spec, job.spec);
  EXPECT_EQ(found->resolved, job.resolved);
  EXPECT_EQ(found->tags, job.tags);
  EXPECT_TRUE(found->pinned);
  EXPECT_EQ(found->exit_code, 0);
  EXPECT_EQ(found->progress, 0.25);
  EXPECT_EQ(found->eta, 77);
  EXPECT_EQ(found->submitted, 1000);
  EXPECT_EQ(store.find_by_request("ada", "r1")->id, job.id);
  EXPECT_FALSE(store.find_by_request("bob", "r1"));
  EXPECT_FALSE(store.find_by_request("ada", ""));
  EXPECT_FALSE(store.find_job("20261116"));
}

TEST(RunStore, IsForItsOwnerOnly) {
  ScratchFolder folder;
  const auto root = folder / "home";
  RunStore store(root);
  store.add_job(job_with_id("a"));
  struct stat status {};
  ASSERT_EQ(::stat(root.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  for (const char* ending : {"", "-wal", "-shm", ".lock"}) {
    ASSERT_EQ(::stat((RunFolders{root}.database().string() + ending).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u) << ending;
  }
}

TEST(RunStore, RefusesAnIdOrARequestTwice) {
  ScratchFolder root;
  RunStore store(root.path());
  JobRow job = job_with_id("a");
  job.request_id = "r";
  store.add_job(job);
  EXPECT_THAT(message_of<InvalidInput>([&] { store.add_job(job); }), HasSubstr("'a'"));
  job.id = "b";
  EXPECT_THROW(store.add_job(job), InvalidInput);
  job.user = "bob";
  store.add_job(job);
  job.id = "c";
  job.request_id = "";
  store.add_job(job);
  job.id = "d";
  store.add_job(job);
  EXPECT_THAT(ids(store.jobs({})), ElementsAre("d", "c", "b", "a"));
  EXPECT_EQ(store.events_after(0, "", "", 100).size(), 4u);
}

TEST(RunStore, FindsJobsByPrefixAndName) {
  ScratchFolder root;
  RunStore store(root.path());
  for (const char* id : {"20260101-000000-a1", "20260101-000000-b2", "20260102-000000-c3"})
    store.add_job(job_with_id(id));
  EXPECT_EQ(store.job_named("20260102").id, "20260102-000000-c3");
  EXPECT_EQ(store.job_named("20260101-000000-b").id, "20260101-000000-b2");
  EXPECT_EQ(store.job_named("name of 20260101-000000-b2").id, "20260101-000000-b2");
  EXPECT_THAT(message_of<AmbiguousJob>([&] { store.job_named("20260101"); }),
              HasSubstr("20260101-000000-b2, 20260101-000000-a1"));
  EXPECT_THROW(store.job_named("2027"), NoSuchJob);
  EXPECT_THROW(store.job_named(""), NoSuchJob);
  EXPECT_THROW(store.job_named("2026%"), NoSuchJob);
  JobRow again = job_with_id("20260103-000000-d4");
  again.name = "name of 20260101-000000-b2";
  store.add_job(again);
  EXPECT_THROW(store.job_named(again.name), AmbiguousJob);
}

TEST(RunStore, FiltersAndPages) {
  ScratchFolder root;
  RunStore store(root.path());
  for (int i = 0; i < 6; ++i) {
    JobRow job = job_with_id(fmt::format("job{}", i));
    job.user = i % 2 == 0 ? "ada" : "bob";
    job.queue = i < 3 ? "default" : "night";
    job.state = static_cast<JobState>(i);  // queued ... failed
    job.tags = fmt::format(R"({{"n":"{}","a=b":"x"}})", i);
    store.add_job(job);
  }
  EXPECT_THAT(ids(store.jobs({.limit = 2})), ElementsAre("job5", "job4"));
  EXPECT_THAT(ids(store.jobs({.before = "job4", .limit = 2})), ElementsAre("job3", "job2"));
  EXPECT_THAT(ids(store.jobs({.user = "bob"})), ElementsAre("job5", "job3", "job1"));
  EXPECT_THAT(ids(store.jobs({.queue = "night"})), ElementsAre("job5", "job4", "job3"));
  EXPECT_THAT(ids(store.jobs({.name = "of job3"})), ElementsAre("job3"));
  EXPECT_THAT(ids(store.jobs({.tag = "n"})).size(), 6u);
  EXPECT_THAT(ids(store.jobs({.tag = "n=4"})), ElementsAre("job4"));
  EXPECT_THAT(ids(store.jobs({.tag = "m"})), IsEmpty());
  EXPECT_THAT(ids(store.jobs({.text = "JOB4"})), ElementsAre("job4"));
  EXPECT_THAT(ids(store.jobs({.text = "Bo"})), ElementsAre("job5", "job3", "job1"));
  EXPECT_THAT(ids(store.jobs({.text = "A=B"})).size(), 6u);  // the key of a tag
  EXPECT_THAT(ids(store.jobs({.text = "X", .limit = 2})), ElementsAre("job5", "job4"));  // a value
  EXPECT_THAT(ids(store.jobs({.text = "%"})), IsEmpty());
  EXPECT_THAT(ids(store.jobs({.states = {JobState::failed, JobState::queued}})),
              ElementsAre("job5", "job0"));
  EXPECT_THAT(ids(store.jobs({.states = {JobState::running, JobState::queued}, .limit = 0})),
              ElementsAre("job2", "job0"));
  EXPECT_THAT(ids(store.unfinished_jobs()), ElementsAre("job0", "job1", "job2", "job3"));
  EXPECT_EQ(store.unfinished_jobs()[0].resolved, R"({"instances":1})");
}

TEST(RunStore, UpdatesOnlyTheExpectedState) {
  ScratchFolder root;
  RunStore store(root.path()), other(root.path());
  JobRow job = job_with_id("a");
  store.add_job(job);
  job.state = JobState::starting;
  job.attempt = 1;
  EXPECT_TRUE(store.update_job(job, JobState::queued, "starting", R"({"attempt":1})"));
  JobRow late = job_with_id("a");
  late.state = JobState::stopped;
  EXPECT_FALSE(other.update_job(late, JobState::queued, "ended"));
  EXPECT_EQ(store.find_job("a")->state, JobState::starting);
  const auto events = other.events_after(0, "a", "", 10);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].kind, "starting");
  EXPECT_EQ(events[1].data, R"({"attempt":1})");
  EXPECT_EQ(events[1].user, "ada");
}

TEST(RunStore, AnUpdateLeavesAloneWhatOthersAskedFor) {
  ScratchFolder root;
  RunStore manager(root.path()), requests(root.path());
  manager.add_job(job_with_id("a"));
  JobRow job = *manager.find_job("a");
  EXPECT_TRUE(requests.ask_stop("a"));
  EXPECT_TRUE(requests.ask_scale("a", 3));
  EXPECT_TRUE(requests.set_pinned("a", true));
  EXPECT_TRUE(requests.set_progress("a", 0.5, 99));
  EXPECT_FALSE(requests.ask_stop("b"));
  job.state = JobState::running;
  ASSERT_TRUE(manager.update_job(job, JobState::queued));
  job = *manager.find_job("a");
  EXPECT_TRUE(job.stop_asked);
  EXPECT_TRUE(job.pinned);
  EXPECT_EQ(job.wanted_workers, 3);
  EXPECT_EQ(job.progress, 0.5);
  EXPECT_EQ(job.eta, 99);
  job.state = JobState::stopped;
  ASSERT_TRUE(manager.update_job(job, JobState::running));
  EXPECT_FALSE(manager.find_job("a")->eta);
  job.state = JobState::queued;
  job.stop_asked = false;
  job.wanted_workers = 0;
  ASSERT_TRUE(manager.update_job(job, JobState::stopped));
  job = *manager.find_job("a");
  EXPECT_FALSE(job.stop_asked);
  EXPECT_EQ(job.wanted_workers, 0);
  EXPECT_FALSE(job.progress);
  EXPECT_EQ(job.resolved, R"({"instances":1})");
  job.state = JobState::succeeded;
  ASSERT_TRUE(manager.update_job(job, JobState::queued));
  EXPECT_EQ(manager.find_job("a")->progress, 1);
}

TEST(RunStore, ChangesTogetherHappenAsAWhole) {
  ScratchFolder root;
  RunStore store(root.path());
  store.add_job(job_with_id("a"));
  EXPECT_THROW(store.together([&] {
    store.put_attempt({.job = "a", .number = 1, .state = "starting"});
    store.add_event("a", "note", "{}");
    throw std::runtime_error("in the middle");
  }),
               std::runtime_error);
  EXPECT_THAT(store.attempts("a"), IsEmpty());
  EXPECT_EQ(store.events_after(0, "", "", 10).size(), 1u);
  store.together([&] {
    // A part that fails takes back itself only.
    EXPECT_THROW(store.add_job(job_with_id("a")), InvalidInput);
    store.put_attempt({.job = "a", .number = 1, .state = "starting"});
  });
  EXPECT_EQ(store.attempts("a").size(), 1u);
}

TEST(RunStore, KeepsAttemptsAndTasks) {
  ScratchFolder root;
  RunStore store(root.path());
  store.add_job(job_with_id("a"));
  store.put_attempt({.job = "a", .number = 2, .state = "running", .instances = 3});
  store.put_attempt({.job = "a", .number = 1, .state = "failed", .exit_code = 9, .ended = 5});
  store.put_attempt({.job = "a", .number = 2, .state = "lost", .failure = "died", .instances = 3});
  const auto attempts = store.attempts("a");
  ASSERT_EQ(attempts.size(), 2u);
  EXPECT_EQ(attempts[0].exit_code, 9);
  EXPECT_EQ(attempts[1].state, "lost");
  EXPECT_EQ(attempts[1].failure, "died");
  EXPECT_FALSE(attempts[1].exit_code);
  const TaskRow first{.name = "worker:1", .host = "h", .state = "running"};
  const TaskRow second{.name = "worker:0", .host = "h", .state = "failed", .exit_code = 1};
  store.put_tasks("a", 1, {first, second});
  store.put_tasks("a", 1, {second, first});
  const auto tasks = store.tasks("a", 1);
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].name, "worker:0");
  EXPECT_EQ(tasks[0].exit_code, 1);
  EXPECT_THAT(store.tasks("a", 2), IsEmpty());
  EXPECT_THROW(store.put_attempt({.job = "b"}), InvalidInput);
}

TEST(RunStore, EventsComeInOrderAndOutliveTheirJob) {
  ScratchFolder root;
  RunStore store(root.path());
  store.add_job(job_with_id("a"));
  JobRow job = job_with_id("b");
  job.user = "bob";
  store.add_job(job);
  store.add_event("a", "note", R"({"text":"x"})");
  store.remove_job("a");
  store.remove_job("a");
  const auto all = store.events_after(0, "", "", 100);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[3].kind, "deleted");
  EXPECT_EQ(all[3].user, "ada");
  EXPECT_EQ(all[3].id, store.last_event());
  EXPECT_EQ(store.events_after(all[0].id, "a", "", 100).size(), 2u);
  EXPECT_EQ(store.events_after(0, "", "bob", 100).size(), 1u);
  EXPECT_EQ(store.events_after(0, "a", "bob", 100).size(), 0u);
  EXPECT_EQ(store.events_after(0, "", "", 2).size(), 2u);
  EXPECT_EQ(store.remove_old_events(utc_now() + 1000), 3);
  store.add_event("b", "note", "{}");
  EXPECT_EQ(store.last_event(), 5);
}

TEST(RunStore, KeepsMetricsCursorsAndMarks) {
  ScratchFolder root;
  RunStore store(root.path(), Durability::process_death);
  store.add_job(job_with_id("a"));
  const double infinite = std::numeric_limits<double>::infinity();
  store.add_metrics({{.job = "a", .name = "loss", .step = 1, .value = 0.5, .time = 10},
                     {.job = "a", .name = "acc", .step = 1, .value = std::nan("")},
                     {.job = "a", .name = "loss", .step = 2, .value = -infinite}});
  const auto loss = store.metrics("a", "loss", 0, 10);
  ASSERT_EQ(loss.size(), 2u);
  EXPECT_EQ(loss[0].value, 0.5);
  EXPECT_EQ(loss[1].value, -infinite);
  EXPECT_EQ(store.metrics("a", "loss", loss[0].id, 10).size(), 1u);
  EXPECT_EQ(store.metrics("a", "", 0, 2).size(), 2u);
  EXPECT_TRUE(std::isnan(store.metrics("a", "acc", 0, 1).at(0).value));
  EXPECT_THAT(store.metric_names("a"), ElementsAre("acc", "loss"));
  EXPECT_THAT(store.metric_names("b"), IsEmpty());

  EXPECT_EQ(store.cursor("a", "log").position, 0);
  store.put_cursor({.job = "a", .source = "log", .position = 5});
  store.put_cursor({.job = "a", .source = "log", .position = 9, .state = "s"});
  EXPECT_EQ(store.cursor("a", "log").position, 9);
  EXPECT_EQ(store.cursor("a", "log").state, "s");

  for (Millis time = 10'000; time < 20'000; time += 250)
    store.add_log_mark("a", 1, "worker:0", time, static_cast<std::uint64_t>(time));
  EXPECT_EQ(store.log_offset_at("a", 1, "worker:0", 9'999), 0u);
  EXPECT_EQ(store.log_offset_at("a", 1, "worker:0", 12'900), 12'000u);
  EXPECT_EQ(store.log_offset_at("a", 2, "worker:0", 12'900), 0u);
  EXPECT_EQ(store.database().integer("SELECT count(*) FROM log_marks"), 10);
  store.remove_job("a");
  for (const char* table : {"job_texts", "attempts", "tasks", "metrics", "cursors", "log_marks"})
    EXPECT_EQ(store.database().integer(fmt::format("SELECT count(*) FROM {}", table)), 0) << table;
}

TEST(RunStore, TwoWritersAtOnce) {
  ScratchFolder root;
  RunStore first(root.path(), Durability::process_death);
  constexpr int kEach = 200;
  std::thread other([&] {
    RunStore store(root.path(), Durability::process_death);
    for (int i = 0; i < kEach; ++i) store.add_job(job_with_id(fmt::format("x{:03}", i)));
  });
  for (int i = 0; i < kEach; ++i) first.add_job(job_with_id(fmt::format("y{:03}", i)));
  other.join();
  EXPECT_EQ(first.jobs({.limit = 0}).size(), 2u * kEach);
  EXPECT_EQ(first.last_event(), 2 * kEach);
  EXPECT_EQ(first.database().check(), "ok");
}

TEST(RunStore, ListsTenThousandJobsAtOnce) {
  ScratchFolder root;
  RunStore store(root.path(), Durability::process_death);
  store.together([&] {
    JobRow job = job_with_id("");
    job.state = JobState::succeeded;
    job.spec = std::string(2000, 'x');
    job.resolved = std::string(4000, 'x');
    for (int i = 0; i < 10'000; ++i) {
      job.id = fmt::format("20261116-190102-{:06}", i);
      job.name = job.id;
      store.add_job(job);
    }
    store.add_job(job_with_id("20261116-190102-000000x"));
  });
  const auto time = [](const std::function<void()>& call) {  // of this thread, in ms
    timespec begin{}, end{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    call();
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    return static_cast<double>(end.tv_sec - begin.tv_sec) * 1e3 +
           static_cast<double>(end.tv_nsec - begin.tv_nsec) / 1e6;
  };
  const double list = time([&] {
    EXPECT_EQ(store.jobs({.states = {JobState::succeeded}, .limit = 0}).size(), 10'000u);
  });
  const double unfinished = time([&] { EXPECT_EQ(store.unfinished_jobs().size(), 1u); });
  const double page = time([&] {
    EXPECT_THAT(ids(store.jobs({.states = {JobState::queued}})),
                ElementsAre("20261116-190102-000000x"));
  });
  fmt::print("10,000 jobs: list {:.2f} ms, unfinished {:.3f} ms, queued {:.3f} ms\n", list,
             unfinished, page);
  EXPECT_LT(list, kSanitized ? 2000 : 150);  // some 20 on a machine that does nothing else
  const auto plan = [&](const char* order) {
    auto row = store.database().prepare_once(fmt::format(
        "EXPLAIN QUERY PLAN SELECT name FROM jobs WHERE state IN ('queued', 'starting', 'running', "
        "'stopping') AND id < 'z' ORDER BY id {}",
        order));
    return row.step() ? row.text(3) : std::string();
  };
  EXPECT_THAT(plan("DESC"), HasSubstr("jobs_unfinished"));
}

}  // namespace
}  // namespace cohort::service

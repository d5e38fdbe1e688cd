#include "cohort/service/metrics/metrics_collector.h"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "cohort/base/deadline.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/soon_test.h"
#include "cohort/jobspec/spec_json.h"
#include "cohort/report/event_file.h"
#include "cohort/report/progress_file.h"
#include "cohort/service/logs_engine_test.h"
#include "cohort/service/metrics/job_metrics.h"
#include "cohort/service/store/sqlite.h"

namespace cohort::service {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class MetricsCollectorTest : public ::testing::Test {
 protected:
  MetricsCollectorTest() {
    std::filesystem::create_directories(output_);
    jobspec::ResolvedJob resolved;
    resolved.spec.metric_definitions = {
        {.name = "loss", .regex = "loss=([0-9.]+)"},
        {.name = "acc", .regex = "(?P<step>[0-9]+): acc=([0-9.]+)"}};
    JobRow job;
    job.id = "a";
    job.engine = "local";
    job.user = "ada";
    job.resolved = jobspec::to_json(resolved);
    store_.add_job(job);
    job.state = JobState::running;
    job.attempt = 1;
    store_.update_job(job, JobState::queued);
    store_.put_attempt({.job = "a", .number = 1, .state = "running", .created = 1000});
    store_.put_tasks("a", 1, {{.name = "worker:0"}, {.name = "worker:1"}});
    restart();
  }

  // As after a kill: nothing but what is in the store.
  void restart() {
    collector_ = std::make_unique<MetricsCollector>(MetricsCollector::Options{
        .folders = {root_.path()}, .engine = [this](std::string_view) { return &engine_; }});
  }
  void end_job(JobState state = JobState::succeeded) {
    engine_.ended = true;
    JobRow job = *store_.find_job("a");
    job.state = state;
    ASSERT_TRUE(store_.update_job(job, JobState::running));
  }
  bool pass() { return collector_->pass(now_ += 10'000); }
  void pass_all() {
    while (pass()) {
    }
  }
  std::vector<std::string> values(const std::string& name) {
    std::vector<std::string> texts;
    for (const auto& row : store_.metrics("a", name, 0, 1'000'000))
      texts.push_back(fmt::format("{}:{}", row.step, row.value));
    return texts;
  }

  ScratchFolder root_;
  std::filesystem::path output_ = RunFolders{root_.path()}.output("a");
  RunStore store_{root_.path(), Durability::process_death};
  LogsEngine engine_;
  Millis now_ = 1'000'000;
  std::unique_ptr<MetricsCollector> collector_;
};

TEST_F(MetricsCollectorTest, FindsValuesInLogsAsTheyGrow) {
  auto& log = engine_.logs["1 worker:0"];
  log = "begin\nloss=0.5\n7: acc=0.25\rloss=0.";
  EXPECT_FALSE(pass());
  EXPECT_THAT(values("loss"), ElementsAre("0:0.5"));
  EXPECT_THAT(values("acc"), ElementsAre("7:0.25"));
  log += "75\nloss=1";
  engine_.logs["1 worker:1"] = "loss=9\n";
  pass();
  EXPECT_THAT(values("loss"), ElementsAre("0:0.5", "1:0.75", "0:9"));
  end_job();
  pass();
  EXPECT_THAT(values("loss"), ElementsAre("0:0.5", "1:0.75", "0:9", "2:1"));
  EXPECT_THAT(store_.uncollected_jobs(), IsEmpty());
}

TEST_F(MetricsCollectorTest, ARestartNeitherLosesNorRepeats) {
  std::vector<std::string> expected;
  auto& log = engine_.logs["1 worker:0"];
  report::EventWriter events(output_ / "tensorboard");
  for (int i = 0; i < 100; ++i) {
    log += fmt::format("loss={}\n", i);
    events.scalar("train/loss", i, i);
    events.flush();
    std::ofstream(output_ / "metrics.jsonl", std::ios::app)
        << fmt::format("{{\"step\":{},\"speed\":{}}}\n", i, i);
    write_file_atomically(output_ / "metrics.csv",
                          (i == 0 ? "step,val\n" : read_file(output_ / "metrics.csv")) +
                              fmt::format("{},{}\n", i, i));
    expected.push_back(fmt::format("{}:{}", i, i));
    if (i % 3 == 0) pass_all();
    if (i % 7 == 0) restart();
  }
  end_job();
  pass_all();
  EXPECT_EQ(values("loss"), expected);
  EXPECT_EQ(values("train/loss"), expected);
  EXPECT_EQ(values("speed"), expected);
  EXPECT_EQ(values("val"), expected);
  EXPECT_THAT(store_.uncollected_jobs(), IsEmpty());
  restart();
  pass_all();
  EXPECT_EQ(store_.metric_count("a"), 400);
}

TEST_F(MetricsCollectorTest, AnotherAttemptGoesOn) {
  engine_.logs["1 worker:0"] = "loss=1\nloss=2\n";
  pass();
  engine_.logs["1 worker:0"] += "loss=3\n";
  JobRow job = *store_.find_job("a");
  job.attempt = 2;
  store_.update_job(job, JobState::running);
  store_.put_tasks("a", 2, {{.name = "worker:0"}});
  engine_.logs["2 worker:0"] = "loss=4\n";
  pass();
  EXPECT_THAT(values("loss"), ElementsAre("0:1", "1:2", "2:3", "3:4"));
  EXPECT_EQ(store_.find_job("a")->collected, 1);
}

TEST_F(MetricsCollectorTest, APassIsBounded) {
  auto& log = engine_.logs["1 worker:0"];
  while (log.size() < 3 * JobMetrics::kMostBytes) log += std::string(1000, 'x') + "\n";
  engine_.logs["1 worker:1"] = std::string(std::size_t{3} << 20, 'y');  // a line without end
  log += "loss=1\n";
  EXPECT_TRUE(pass());
  EXPECT_LE(store_.cursor("a", "log 1 worker:0").position,
            static_cast<std::int64_t>(JobMetrics::kMostBytes));
  int passes = 1;
  while (pass()) ++passes;
  EXPECT_LE(passes, 5);
  EXPECT_THAT(values("loss"), ElementsAre("0:1"));
}

TEST_F(MetricsCollectorTest, MarksWhereLogsStood) {
  auto& log = engine_.logs["1 worker:0"];
  log = "one\nhalf";
  pass();
  const Millis first = now_;
  pass();
  log += " two\n";
  pass();
  EXPECT_EQ(store_.log_offset_at("a", 1, "worker:0", first - 1), 0u);
  EXPECT_EQ(store_.log_offset_at("a", 1, "worker:0", now_ - 1), 4u);
  EXPECT_EQ(store_.log_offset_at("a", 1, "worker:0", now_), log.size());
}

TEST_F(MetricsCollectorTest, TellsProgressOfThisAttempt) {
  const auto path = output_ / report::kProgressFile;
  write_file_atomically(path, R"({"time":999,"fraction":0.9,"seconds_left":1})");
  pass();
  EXPECT_FALSE(store_.find_job("a")->progress);
  write_file_atomically(path, R"({"time":5000,"fraction":0.25,"seconds_left":3})");
  pass();
  EXPECT_EQ(store_.find_job("a")->progress, 0.25);
  EXPECT_EQ(store_.find_job("a")->eta, 8000);
  end_job();
  write_file_atomically(path, R"({"time":6000,"fraction":0.5,"seconds_left":3})");
  pass();
  EXPECT_EQ(store_.find_job("a")->progress, 1);
  EXPECT_FALSE(store_.find_job("a")->eta);
}

TEST_F(MetricsCollectorTest, AnErrorIsTriedAgainAndGivenUpAfterTheEnd) {
  engine_.logs["1 worker:0"] = "loss=1\n";
  engine_.failing = true;
  for (int i = 0; i < 10; ++i) pass();
  EXPECT_EQ(store_.uncollected_jobs().size(), 1u);
  engine_.failing = false;
  pass();
  EXPECT_THAT(values("loss"), ElementsAre("0:1"));
  end_job(JobState::failed);
  engine_.failing = true;
  for (int i = 0; i < 10; ++i) pass();
  EXPECT_THAT(store_.uncollected_jobs(), IsEmpty());
}

TEST_F(MetricsCollectorTest, LooksLessOftenWhereNothingIsNew) {
  auto& log = engine_.logs["1 worker:0"];
  const auto seen_after = [&](Millis step) {
    log += "loss=1\n";
    const auto before = values("loss").size();
    for (Millis waited = step;; waited += step) {
      collector_->pass(now_ += step);
      if (values("loss").size() > before) return waited;
    }
  };
  EXPECT_LE(seen_after(500), 1000);
  EXPECT_LE(seen_after(500), 1500);
  for (int i = 0; i < 60; ++i) collector_->pass(now_ += 500);
  EXPECT_LE(seen_after(500), 5000);
  now_ -= 1'000'000'000;  // the clock is set back
  EXPECT_LE(seen_after(500), 5000);
}

TEST_F(MetricsCollectorTest, ADeletedJobIsLeftAlone) {
  engine_.logs["1 worker:0"] = "loss=1\n";
  pass();
  store_.remove_job("a");
  EXPECT_FALSE(pass());
  EXPECT_EQ(store_.database().integer("SELECT count(*) FROM metrics"), 0);
}

TEST_F(MetricsCollectorTest, HasAThread) {
  engine_.logs["1 worker:0"] = "loss=1\n";
  collector_->start();
  const auto deadline = soon();
  while (values("loss").empty() && !deadline.expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  collector_->stop();
  EXPECT_THAT(values("loss"), ElementsAre("0:1"));
}

}  // namespace
}  // namespace cohort::service

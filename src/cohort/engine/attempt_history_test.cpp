#include "cohort/engine/attempt_history.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>

#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/process/machine.h"
#include "cohort/launch/record/job_record.h"

namespace cohort::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class AttemptHistoryTest : public testing::Test {
 protected:
  AttemptHistoryTest() { std::filesystem::create_directories(folder_.run()); }
  void put_record(const std::string& text) {
    write_file_atomically(folder_.run() / launch::OutputFolder::kRecord, text);
  }
  void put_membership(const std::string& text) {
    write_file_atomically(folder_.run() / "membership.jsonl", text);
  }

  ScratchFolder scratch_;
  AttemptFolder folder_{scratch_.path() / "1"};
};

TEST_F(AttemptHistoryTest, AFailureIsTheLaunchersReport) {
  put_record(R"({"tasks": [
      {"type": "worker", "index": 0, "state": "stopped", "signal": "SIGTERM", "exit_code": 143},
      {"type": "worker", "index": 1, "state": "failed", "exit_code": 1, "signal": null}],
    "root_cause": {"type": "worker", "index": 1, "host": "node7", "exit_code": 1, "signal": null,
      "summary": "worker/1 failed", "memory_evidence": null, "last_lines": ["a", 7, "b"],
      "advice": "Read it."}})");
  const auto report = read_failure(folder_);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->task, "worker:1");
  EXPECT_EQ(report->host, "node7");
  EXPECT_EQ(report->how, "exit code 1");
  EXPECT_EQ(report->summary, "worker/1 failed");
  EXPECT_THAT(report->lines, ElementsAre("a", "b"));
  EXPECT_THAT(report->collateral, ElementsAre("worker:0: SIGTERM"));
  EXPECT_EQ(report->advice, "Read it.");
}

TEST_F(AttemptHistoryTest, WithoutARootCauseThereIsNoReport) {
  EXPECT_FALSE(read_failure(folder_));
  for (const char* record : {"{}", "[]", "{", R"({"root_cause": 7})", R"({"root_cause": null})"}) {
    put_record(record);
    EXPECT_FALSE(read_failure(folder_)) << record;
    EXPECT_THAT(read_history(folder_), IsEmpty()) << record;
    EXPECT_THAT(read_usage(folder_), IsEmpty()) << record;
  }
}

TEST_F(AttemptHistoryTest, TasksAndViewsStandInTheOrderOfTime) {
  put_record(R"({"tasks": [{"type": "worker", "index": 1, "restarts": 1, "exit_code": 0,
      "started": "2026-11-18T10:00:03.000Z", "ended": "2026-11-18T10:00:09.000Z"}],
    "previous_attempts": [[{"type": "ps", "index": 0, "started": "2026-11-18T09:00:00.000Z"}], 7]})");
  put_membership(
      R"({"time":"2026-11-18T10:00:01.000Z","event":"proposed","view":2}
{"time":"2026-11-18T10:00:02.000Z","event":"installed","view":2,"members":["worker/0.0.0"],"reason":"worker/1 was killed"}
not json
{"time":"2026-11-18T10:00:02.100Z","event":"resumed","view":2,"member":"worker/0.0.0","step":18,"stood_still_ms":51.7}
{"time":"2026-11-18T10:00:02.200Z","event":"evicted","member":"worker/1.0.0","reason":"it is silent"}
)");
  EXPECT_THAT(
      read_history(folder_),
      ElementsAre(
          HistoryEntry{"2026-11-18T09:00:00.000Z", "task_started", "ps:0", "started"},
          HistoryEntry{"2026-11-18T10:00:02.000Z", "view", "",
                       "view 2: worker/1 was killed; 1 member"},
          HistoryEntry{"2026-11-18T10:00:02.100Z", "trains", "worker:0",
                       "view 2 trains from step 18, stood still 52 ms"},
          HistoryEntry{"2026-11-18T10:00:02.200Z", "evicted", "worker:1", "it is silent"},
          HistoryEntry{"2026-11-18T10:00:03.000Z", "task_started", "worker:1",
                       "started, restart 1"},
          HistoryEntry{"2026-11-18T10:00:09.000Z", "task_ended", "worker:1", "exit code 0"}));
}

TEST_F(AttemptHistoryTest, OfALongHistoryTheNewestIsKept) {
  std::string lines;
  for (int i = 0; i < 7000; ++i)
    lines += fmt::format(
        R"({{"time":"2026-11-18T10:{:02}:{:02}.{:03}Z","event":"waiting","reason":"{}"}})"
        "\n",
        i / 600, i / 10 % 60, i % 10, i);
  put_membership(lines);
  const auto entries = read_history(folder_);
  EXPECT_LE(entries.size(), kMostHistory);
  ASSERT_FALSE(entries.empty());
  EXPECT_EQ(entries.back().text, "6999");
}

TEST_F(AttemptHistoryTest, UsageIsThatOfProcessesOfThisMachine) {
  put_record(fmt::format(R"({{"tasks": [
      {{"type": "worker", "index": 0, "host": "{0}", "pid": {1}, "started": "x"}},
      {{"type": "worker", "index": 1, "host": "{0}-other", "pid": {1}}},
      {{"type": "worker", "index": 2, "host": "{0}", "pid": {1}, "ended": "y"}}],
    "elastic": {{"members": [{{"task": "worker/0", "step": 12}}, {{"task": "worker/9"}}]}}}})",
                         host_name(), ::getpid()));
  const auto used = read_usage(folder_);
  ASSERT_EQ(used.size(), 3u);
  EXPECT_EQ(used.at("worker:0").pid, ::getpid());
  EXPECT_EQ(used.at("worker:0").step, 12);
  ASSERT_TRUE(used.at("worker:0").memory);
  EXPECT_GT(*used.at("worker:0").memory, 100'000u);
  EXPECT_TRUE(used.at("worker:0").cpu_seconds);
  EXPECT_FALSE(used.at("worker:1").memory);
  EXPECT_FALSE(used.at("worker:2").memory);
}

// A program of that name in front of the PATH stands for the driver's.
TEST_F(AttemptHistoryTest, GpuMemoryIsThatOfTheTasksProcesses) {
  const std::filesystem::path tool = scratch_.path() / "nvidia-smi";
  write_file_atomically(tool, fmt::format("#!/bin/sh\necho '{}, 512'\necho '1, 7'\n", ::getpid()));
  std::filesystem::permissions(tool, std::filesystem::perms::owner_all);
  const std::string before = std::getenv("PATH");
  ::setenv("PATH", (scratch_.path().string() + ":" + before).c_str(), 1);
  put_record(
      fmt::format(R"({{"tasks": [{{"type": "worker", "index": 0, "host": "{}", "pid": {}}}]}})",
                  host_name(), ::getpid()));
  const auto used = read_usage(folder_);
  ::setenv("PATH", before.c_str(), 1);
  EXPECT_EQ(used.at("worker:0").gpu_memory, std::uint64_t{512} << 20);
}

}  // namespace
}  // namespace cohort::engine

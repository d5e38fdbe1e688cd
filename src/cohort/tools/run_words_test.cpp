#include "cohort/tools/run_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/tools/run_command.h"

namespace cohort::tools {
namespace {

using ::testing::HasSubstr;

// Every option has a value that is not its default.
const Words kEveryOption = {"-n",
                            "2:8",
                            "--elastic",
                            "--lease",
                            "0.5",
                            "--elastic-timeout",
                            "9",
                            "--host-discovery-script",
                            "hosts.sh",
                            "--max-restarts",
                            "7",
                            "--evaluator",
                            "--strategy",
                            "mirrored",
                            "--hosts",
                            "node1:4,node2",
                            "--slots-per-host",
                            "2",
                            "--remote-shell",
                            "ip netns exec",
                            "--remote-cohort",
                            "/opt/cohort",
                            "--address",
                            "10.0.0.1",
                            "--output",
                            "some/folder",
                            "--keep",
                            "3",
                            "--show",
                            "worker:0",
                            "-q",
                            "--success",
                            "worker0",
                            "--grace",
                            "1.25",
                            "--task-restarts",
                            "5",
                            "--env",
                            "A=1",
                            "--env",
                            "B=x=y \"z\"",
                            "--scheduler-args",
                            "--gpus-per-worker",
                            "3",
                            "--threads-per-task",
                            "6",
                            "--horovod",
                            "--proxy",
                            "strip"};

launch::JobOptions job_of(const RunWords& words) { return parse_run_words(words).job; }

TEST(RunWordsFile, AJobIsAskedForAgainAsItWas) {
  const RunWords words{.arguments = kEveryOption, .program = {"./train", "--name", "a \"b\""}};
  const RunWords read = run_words_from_json(to_json(words), "x");
  EXPECT_EQ(read, words);
  const auto job = job_of(read);
  EXPECT_EQ(job, job_of(words));
  EXPECT_EQ(job.command, words.program);
  EXPECT_EQ(job.elastic->least, 2);
  EXPECT_EQ(job.elastic->task_restarts, 7);
  EXPECT_EQ(job.environment.at("B"), "x=y \"z\"");
  EXPECT_EQ(job.grace, std::chrono::milliseconds(1250));
}

TEST(RunWordsFile, AJobFileNeedNotBeThereAgain) {
  const RunWords words{.arguments = {"--config", "gone.toml", "--ps", "2", "--hosts", "node3"},
                       .program = {"./train"},
                       .job_file = "gone.toml",
                       .file_arguments = {"--workers", "4", "--ps", "1", "--hosts", "node1,node2"}};
  const auto job = job_of(run_words_from_json(to_json(words), "x"));
  EXPECT_EQ(job.workers, 4);
  EXPECT_EQ(job.ps, 2);  // the command line wins
  ASSERT_EQ(job.hosts.size(), 1U);
  EXPECT_EQ(job.hosts.front().name, "node3");
}

TEST(RunWordsFile, WhatAnotherVersionWroteIsRefused) {
  auto refusal = [](const std::string& text) {
    return message_of<InvalidInput>([&] { run_words_from_json(text, "FILE"); });
  };
  EXPECT_THAT(refusal(R"({"command": ["true"], "workers": 2})"), HasSubstr("'FILE' does not hold"));
  EXPECT_THAT(refusal(R"({"arguments": [1], "program": [], "job_file": null})"),
              HasSubstr("'FILE' does not hold"));
  EXPECT_THAT(refusal("{\"arguments\": "), HasSubstr("'FILE' does not hold"));
  EXPECT_THAT(refusal("[]"), HasSubstr("'FILE' does not hold"));
}

}  // namespace
}  // namespace cohort::tools

#include "cohort/engine/kubernetes/pod_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/engine/kubernetes/log_position.h"
#include "cohort/engine/kubernetes/pod_log.h"

namespace cohort::engine::kubernetes {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST(PodStatuses, APodThatNoNodeTakesSaysWhy) {
  const PodStatus pod = read_pod(json::parse(R"({"metadata": {"name": "j-0-x", "uid": "u",
      "labels": {"batch.kubernetes.io/job-completion-index": "3"}},
      "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
                 "reason": "Unschedulable", "message": "0/2 nodes are available"}]}})"));
  EXPECT_EQ(pod.index, 3);
  EXPECT_EQ(pod.waits_for,
            "no node takes the pod 'j-0-x' (Unschedulable): 0/2 nodes are available");
  EXPECT_EQ(as_task(pod, "worker:3", 0).state, "starting");
}

TEST(PodStatuses, AnEndedContainerTellsCodeTimesReasonAndLastWord) {
  const std::string word = encode_last_word(
      {.kind = LastWord::Kind::error, .message = "no data", .exit_code = 1, .pid = 7});
  json pod = json::parse(R"({"spec": {"nodeName": "n1"}, "status": {"phase": "Failed",
      "containerStatuses": [{"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled",
      "startedAt": "2026-11-16T10:00:00Z", "finishedAt": "2026-11-16T10:00:05Z"}}}]}})");
  pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = word;
  const PodStatus status = read_pod(pod);
  EXPECT_EQ(status.exit_code, 137);
  EXPECT_EQ(status.reason, "OOMKilled");
  EXPECT_EQ(status.last_word.message, "no data");
  EXPECT_EQ(status.index, -1);
  EXPECT_TRUE(status.has_ended());
}

TEST(PodStatuses, AMessageThatIsNoLastWordIsTheEndOfTheLog) {
  json pod = json::parse(R"({"status": {"containerStatuses": [{"state": {"terminated": {
      "exitCode": 134, "message": "terminate called\n  what():  no data\n"}}}]}})");
  const PodStatus status = read_pod(pod);
  EXPECT_EQ(status.last_word.kind, LastWord::Kind::none);
  EXPECT_EQ(status.last_lines, "terminate called\n  what():  no data\n");
}

TEST(PodLogs, OnlyWhatIsMissingOfTheLastLinesIsAdded) {
  EXPECT_EQ(missing_behind("a\nb\n", "a\nb\n"), "");
  EXPECT_EQ(missing_behind("a\nb\n", "b\nc\nd\n"), "c\nd");
  EXPECT_EQ(missing_behind("line 1\nline 2\n", "e 2\nline 3\n"), "line 3");  // cut at 2,048 bytes
  EXPECT_EQ(missing_behind("a\nb", "b"), "");
  EXPECT_EQ(missing_behind("a\nb\n", "c\n"), std::nullopt);
  EXPECT_EQ(missing_behind("a\nb\n", "bc\nd\n"), std::nullopt);  // no end of a line
  EXPECT_EQ(missing_behind("", "c\n"), std::nullopt);
  EXPECT_EQ(missing_behind("a\n", ""), std::nullopt);
}

TEST(PodStatuses, WhatIsNoPodIsHarmless) {
  for (const char* text : {"null", "[]", "{}", R"({"metadata": 7, "status": {"conditions": {}}})",
                           R"({"status": {"containerStatuses": [null]}})"})
    EXPECT_EQ(read_pod(json::parse(text)).phase, PodStatus::Phase::pending);
}

TEST(JobConditionsOf, OnlyAConditionThatHoldsIsAnEnd) {
  const auto end = [](const char* type, const char* status) {
    return read_job({{"status", {{"conditions", {{{"type", type}, {"status", status}}}}}}}).end;
  };
  EXPECT_EQ(end("Complete", "True"), JobEnd::complete);
  EXPECT_EQ(end("Complete", "False"), JobEnd::none);
  EXPECT_EQ(end("FailureTarget", "True"), JobEnd::none);
  EXPECT_EQ(end("Failed", "True"), JobEnd::failed);
}

TEST(Timestamps, AreReadWithFractionsAndOffsets) {
  const auto base = parse_timestamp("2026-11-16T22:51:45Z");
  ASSERT_TRUE(base);
  EXPECT_EQ(*base, 1'794'869'505'000'000'000);
  EXPECT_EQ(parse_timestamp("2026-11-16T22:51:45.5Z"), *base + 500'000'000);
  EXPECT_EQ(parse_timestamp("2026-11-17T00:51:45.000000001+02:00"), *base + 1);
  for (const char* text : {"", "2026-11-16", "2026-13-16T22:51:45Z", "2026-11-16T22:51:45", "x"})
    EXPECT_FALSE(parse_timestamp(text)) << text;
}

std::string taken(LogPosition& position, const std::vector<std::string>& lines) {
  std::string text;
  position.begin_stream();
  for (const auto& line : lines)
    if (const auto piece = position.take(line)) text += std::string(*piece) + ";";
  return text;
}

TEST(LogPositions, EveryLineIsTakenOnceOverStreamsThatBreakOff) {
  const std::vector<std::string> lines = {"2026-11-16T10:00:00.1Z a", "2026-11-16T10:00:00.2Z b",
                                          "2026-11-16T10:00:00.2Z b", "2026-11-16T10:00:00.2Z c",
                                          "2026-11-16T10:00:01.0Z d", "rest of d"};
  for (std::size_t cut = 0; cut <= lines.size(); ++cut) {
    LogPosition position;
    const auto middle = lines.begin() + static_cast<long>(cut);
    std::string text = taken(position, {lines.begin(), middle});
    position = LogPosition::from_json(position.to_json());  // another process
    const bool late = cut > 4;                              // the server then begins at 10:00:01
    EXPECT_EQ(position.since(), cut == 0 ? ""
                                : late   ? "2026-11-16T10:00:01Z"
                                         : "2026-11-16T10:00:00Z");
    text += taken(position, {lines.begin() + (late ? 4 : 0), lines.end()});
    // The rest of a cut line has no time: it is taken with the line that it belongs to.
    EXPECT_THAT(text, ::testing::StartsWith("a;b;b;c;d;")) << cut;
  }
}

}  // namespace
}  // namespace cohort::engine::kubernetes

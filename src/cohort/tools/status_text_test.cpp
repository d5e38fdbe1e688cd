#include "cohort/tools/status_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort::tools {
namespace {

using nlohmann::ordered_json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

ordered_json elastic_job() {
  return ordered_json::parse(R"({
    "job": "j1", "state": "running", "launcher_pid": 77, "started": "T0", "ended": null,
    "attempt": 2, "exit_code": null, "failure": null, "root_cause": null,
    "tasks": [{"type": "worker", "index": 0, "host": "h", "pid": 5, "state": "running", "restarts": 1}],
    "elastic": {"least": 2, "most": 8, "wanted": 3, "phase": "training", "view": 4,
      "last_change": {"time": "T1", "view": 4, "reason": "worker/2: killed", "step": 212,
                      "stood_still_ms": 84.2, "redone": true},
      "members": [
        {"id": "worker/0.0.0", "task": "worker/0", "host": "h", "pid": 5, "in_view": true,
         "stage": 430, "step": 213, "samples_per_second": 100.5, "heard_ms_ago": 12},
        {"id": "worker/1.0.0", "task": "worker/1", "host": "h", "pid": 6, "in_view": true,
         "stage": 429, "step": 212, "samples_per_second": 100, "heard_ms_ago": 20},
        {"id": "worker/2.1.0", "task": "worker/2", "host": "h", "pid": 7, "in_view": false,
         "stage": -1, "step": 0, "samples_per_second": 0, "heard_ms_ago": 3}]}})");
}

TEST(StatusText, AnElasticJobShowsViewMembersStepThroughputAndLastChange) {
  const std::string text = status_text({elastic_job(), true});
  EXPECT_THAT(text, HasSubstr("job j1: running\n"));
  EXPECT_THAT(text, HasSubstr("view 4 (training), 2 of 3 wanted workers (2 to 8 possible)"));
  EXPECT_THAT(text, HasSubstr("step 213, 200.5 samples/s in all"));
  EXPECT_THAT(text, HasSubstr("last change: view 4 at T1: worker/2: killed; stood still 84 ms, "
                              "step 212 was done again"));
  EXPECT_THAT(text, ContainsRegex("worker/1 +h +6 +member +429 +212 +100.0 +20\n"));
  EXPECT_THAT(text, ContainsRegex("worker/2 +h +7 +waits +-1 +0 +0.0 +3\n"));
}

TEST(StatusText, ALauncherThatIsGoneIsSaidAndWhatOnlyItKnewIsLeftOut) {
  auto record = elastic_job();
  for (auto& member : record["elastic"]["members"])
    for (const char* key : {"stage", "step", "samples_per_second", "heard_ms_ago"})
      member.erase(key);
  const std::string text = status_text({record, false});
  EXPECT_THAT(text, HasSubstr("its launcher (pid 77) is gone"));
  EXPECT_THAT(text, Not(HasSubstr("in all")));
  EXPECT_THAT(text, ContainsRegex("worker/1 +h +6 +member +- +- +- +-\n"));
}

TEST(StatusText, AJobThatEndedAndOneThatIsNotElasticShowTheirTasks) {
  auto record = elastic_job();
  record["elastic"] = nullptr;
  EXPECT_THAT(status_text({record, true}), ContainsRegex("worker/0 +h +5 +running +1\n"));
  record["state"] = "failed";
  record["ended"] = "T2";
  record["exit_code"] = 137;
  record["root_cause"] = {{"summary", "worker/0 was killed"}};
  const std::string text = status_text({record, false});
  EXPECT_THAT(text, HasSubstr("job j1: failed, exit code 137, at T2\n"));
  EXPECT_THAT(text, HasSubstr("root cause: worker/0 was killed"));
  EXPECT_THAT(text, Not(HasSubstr("is gone")));
}

TEST(StatusText, ALauncherThatDoesNotAnswerIsNotSaidToBeGone) {
  KnownJob job{elastic_job(), false};
  EXPECT_THAT(status_text(job), HasSubstr("its launcher (pid 77) is gone"));
  job.left_processes = 3;
  EXPECT_THAT(status_text(job), HasSubstr("3 of its processes still run"));
  job.left_processes = 0;
  job.trouble = "too many wait at its socket";
  EXPECT_THAT(status_text(job), HasSubstr("its launcher (pid 77) does not answer (too many wait"));
  EXPECT_THAT(status_text(job), Not(HasSubstr("gone")));
}

TEST(StatusText, EscapeSequencesOfARecordDoNotReachTheTerminal) {
  auto record = elastic_job();
  record["job"] = "j\x1b]0;title\x07";
  record["failure"] =
      "\x1b[2J\xc2\x9b"
      "31m\r";
  record["elastic"]["members"][0]["host"] = "h\x1b[1A";
  record["elastic"]["last_change"]["reason"] = "\x1b[8m";
  const std::string text = status_text({record, false});
  EXPECT_EQ(text.find_first_of("\x1b\x07\r\x9b"), std::string::npos) << text;
  EXPECT_THAT(text, HasSubstr("j\\x1b]0;title\\x07"));
}

TEST(StatusText, ARecordOfAnOlderVersionIsShownAsFarAsItGoes) {
  EXPECT_THAT(status_text({ordered_json{{"job", "j"}, {"state", "running"}}, false}),
              HasSubstr("job j: running"));
}

}  // namespace
}  // namespace cohort::tools

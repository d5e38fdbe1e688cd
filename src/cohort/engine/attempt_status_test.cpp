#include "cohort/engine/attempt_status.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/process/process.h"
#include "cohort/launch/record/job_record.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;

// An attempt whose supervisor is this process.
class AttemptStatusTest : public testing::Test {
 protected:
  AttemptStatusTest() {
    fs::create_directories(folder_.run());
    claim_attempt(folder_, process_identity(::getpid()));
  }
  void put(const std::string& record) { write_file_atomically(record_, record); }
  AttemptStatus status() { return attempt_status(folder_, /*live=*/true); }

  ScratchFolder scratch_;
  AttemptFolder folder_{scratch_.path() / "1"};
  fs::path record_ = folder_.run() / launch::OutputFolder::kRecord;
};

TEST_F(AttemptStatusTest, IsWhatTheRecordSays) {
  put(R"({"state": "running", "elastic": {"members": [{"in_view": true}, {"in_view": false}]},
          "tasks": [{"type": "worker", "index": 1, "state": "running", "restarts": 2}]})");
  const AttemptStatus found = status();
  EXPECT_EQ(found.state, AttemptState::running);
  EXPECT_EQ(found.workers, 1);
  ASSERT_EQ(found.tasks.size(), 1u);
  EXPECT_EQ(found.tasks[0].name, "worker:1");
  EXPECT_EQ(found.tasks[0].restarts, 2);
}

// The job's own program, or another version, may have written it.
TEST_F(AttemptStatusTest, OfARecordThatIsNoneIsAStatusAllTheSame) {
  const std::string deep(1'000'000, '[');
  for (const std::string& record : {
           std::string("null"),
           std::string("[]"),
           std::string("{"),
           std::string(R"({"state": null, "tasks": null, "elastic": null, "control": null})"),
           std::string(R"({"state": "running", "tasks": [null, 1, "x", []], "control": "/none"})"),
           std::string(
               R"({"state": "running", "elastic": {"members": [null, 1, {"in_view": 7}]}})"),
           std::string(R"({"state": "running", "elastic": {"members": 7}, "exit_code": 1e300})"),
           std::string(R"({"tasks": [{"restarts": 9223372036854775807, "attempt": -1}]})"),
           R"({"tasks": )" + deep + std::string(deep.size(), ']') + "}",
           std::string("\xff\xfe"),
       }) {
    put(record);
    EXPECT_FALSE(has_ended(status().state)) << record.substr(0, 80);
    EXPECT_NO_THROW(control_socket(folder_));
  }
}

TEST_F(AttemptStatusTest, NeverWaitsForWhatIsNoFile) {
  ASSERT_EQ(::mkfifo(record_.c_str(), 0600), 0);
  EXPECT_EQ(status().state, AttemptState::starting);
  fs::remove(record_);
  fs::create_symlink("/etc/passwd", record_);
  EXPECT_EQ(status().state, AttemptState::starting);
  ASSERT_EQ(::mkfifo(folder_.failure().c_str(), 0600), 0);
  EXPECT_EQ(status().state, AttemptState::starting);
  fs::remove(folder_.failure());
  write_file_atomically(folder_.failure(), R"({"failure": null, "ended": 7})");
  EXPECT_EQ(status().state, AttemptState::failed);
  fs::remove(folder_.claim());
  ASSERT_EQ(::mkfifo(folder_.claim().c_str(), 0600), 0);
  EXPECT_EQ(status().state, AttemptState::unknown);  // as if it were gone
}

}  // namespace
}  // namespace cohort::engine

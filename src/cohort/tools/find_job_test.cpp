#include "cohort/tools/find_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"

namespace cohort::tools {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A current folder with jobs in it.
class FindJob : public ::testing::Test {
 protected:
  FindJob() : before_(fs::current_path()) {
    fs::current_path(scratch_.path());
    for (const char* job : {"cohort-output/20260101-000000-aaaa", "cohort-output/20260101-111111-b",
                            "cohort-output/20260202-000000-c", "elsewhere"}) {
      fs::create_directories(job);
      std::ofstream(fs::path(job) / "job.json") << "{}";
    }
    fs::create_directories("cohort-output/20260303-no-job");
  }
  ~FindJob() override { fs::current_path(before_); }

  ScratchFolder scratch_;
  fs::path before_;
};

std::string refusal(const std::string& name) {
  return message_of<InvalidInput>([&] { find_job(name); });
}

TEST_F(FindJob, AFolderAnIdItsBeginningAndTheLatestAreFound) {
  EXPECT_EQ(find_job("elsewhere"), "elsewhere");
  EXPECT_EQ(find_job(fs::absolute("elsewhere").string()), fs::absolute("elsewhere"));
  EXPECT_EQ(find_job("20260101-111111-b"), "cohort-output/20260101-111111-b");
  EXPECT_EQ(find_job("20260202"), "cohort-output/20260202-000000-c");
  EXPECT_EQ(find_job("latest"), "cohort-output/20260202-000000-c");
}

TEST_F(FindJob, WhatIsNotThereOrNotOneJobIsRefusedWithWhatThereIs) {
  EXPECT_THAT(refusal("20260101"), HasSubstr("begins 2 job ids: 20260101-111111-b"));
  EXPECT_THAT(refusal("2025"), HasSubstr("There are: 20260202-000000-c, 20260101-111111-b"));
  EXPECT_THAT(refusal("20260303"), HasSubstr("no job '20260303'"));
  EXPECT_THAT(refusal(""), HasSubstr("no job ''"));
  fs::remove_all("cohort-output");
  EXPECT_THAT(refusal("latest"), HasSubstr("no job 'latest'"));
}

}  // namespace
}  // namespace cohort::tools

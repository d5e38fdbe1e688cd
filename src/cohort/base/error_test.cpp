#include "cohort/base/error.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace cohort {
namespace {

TEST(Error, WhatTellsEverythingThatIsKnown) {
  Error error("connection reset", {.task = "worker/1",
                                   .host = "node7",
                                   .during = "all_reduce #17",
                                   .advice = "Look at its log."});
  EXPECT_STREQ(error.what(),
               "connection reset (worker/1 on node7, during all_reduce #17). Look at its log.");
}

TEST(Error, WhatLeavesOutWhatIsUnknown) {
  EXPECT_STREQ(Error("no").what(), "no");
  EXPECT_STREQ(Error("no", {.host = "a"}).what(), "no (on a)");
  EXPECT_STREQ(Error("no", {.during = "get"}).what(), "no (during get)");
  EXPECT_STREQ(Error("get 'a' failed", {.during = "get 'a'"}).what(), "get 'a' failed");
}

TEST(Error, SystemErrorKeepsErrnoAndSaysItsName) {
  SystemError error("open 'x'", ENOENT);
  EXPECT_EQ(error.code(), ENOENT);
  EXPECT_STREQ(error.what(), "open 'x': No such file or directory");
}

TEST(Error, CheckNamesConditionAndPlace) {
  try {
    COHORT_CHECK(1 + 1 == 3, "sum was {}", 2);
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("sum was 2"), std::string::npos);
    EXPECT_NE(error.message().find("1 + 1 == 3"), std::string::npos);
  }
}

}  // namespace
}  // namespace cohort

#include "cohort/launch/job/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"

namespace cohort::launch {
namespace {

using ::testing::HasSubstr;

JobOptions valid() {
  JobOptions options;
  options.command = {"true"};
  return options;
}

std::string refusal(JobOptions options) {
  try {
    settle(options);
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Job, ColocatedPutsAServerBesideEachWorkerAndNamesAChief) {
  JobOptions options = valid();
  options.workers = 3;
  options.layout = Layout::colocated;
  settle(options);
  EXPECT_EQ(options.ps, 3);
  EXPECT_EQ(options.chief_name, ChiefName::chief);
}

TEST(Job, WhatCannotWorkIsRefusedWithTheValue) {
  JobOptions options = valid();
  options.workers = 0;
  EXPECT_THAT(refusal(options), HasSubstr("--workers must be at least 1, got 0"));
  options = valid();
  options.strategy = "parameter_server";
  EXPECT_THAT(refusal(options), HasSubstr("--ps is 0"));
  options = valid();
  options.grace = std::chrono::milliseconds(-1500);
  EXPECT_THAT(refusal(options), HasSubstr("--grace must be at least 0 seconds, got -1.5"));
  options = valid();
  options.command = {};
  EXPECT_THAT(refusal(options), HasSubstr("no program"));
  EXPECT_EQ(refusal(valid()), "accepted");
}

TEST(Job, TheSuccessPolicyFollowsTheCoordinator) {
  JobOptions options = valid();
  EXPECT_EQ(options.success_policy(), SuccessPolicy::all_workers);
  options.coordinator = true;
  EXPECT_EQ(options.success_policy(), SuccessPolicy::chief);
  options.success = SuccessPolicy::worker0;
  EXPECT_EQ(options.success_policy(), SuccessPolicy::worker0);
}

TEST(Job, ProgramsAreFoundAsAShellWould) {
  EXPECT_EQ(find_program("sh", "/nonexistent:/bin"), "/bin/sh");
  EXPECT_EQ(find_program("/bin/sh", ""), "/bin/sh");
  EXPECT_THROW(find_program("sh", "/nonexistent"), InvalidInput);
  EXPECT_THROW(find_program("/tmp", ""), InvalidInput);
}

TEST(Hosts, NamesAndSlotsAreRead) {
  EXPECT_EQ(parse_host("node1"), (Host{"node1", std::nullopt}));
  EXPECT_EQ(parse_host("node1:4"), (Host{"node1", 4}));
  EXPECT_EQ(parse_host("fe80::1"), (Host{"fe80::1", std::nullopt}));
  for (const char* bad : {"", ":4", "node1:x", "node1:0", "me@node1"})
    EXPECT_THROW(parse_host(bad), InvalidInput) << bad;
}

TEST(Hosts, ThisMachineIsKnownByItsNamesAndAddresses) {
  EXPECT_TRUE(is_this_machine("localhost"));
  EXPECT_TRUE(is_this_machine("127.0.0.1"));
  EXPECT_FALSE(is_this_machine("node1.example"));
}

TEST(Hosts, MustHaveSlotsForAllWorkers) {
  EXPECT_THROW(require_slots({{"localhost", 2}, {"node1", 1}}, 4), InvalidInput);
  EXPECT_NO_THROW(require_slots({{"localhost", 2}, {"node1", 1}}, 3));
  EXPECT_NO_THROW(require_slots({{"localhost", 2}, {"node1", std::nullopt}}, 4));
}

TEST(Hosts, SeeThisMachineAtTheAddressOfTheWayToThem) {
  EXPECT_EQ(address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_THROW(address_towards("no-such-host.invalid"), InvalidInput);
}

}  // namespace
}  // namespace cohort::launch

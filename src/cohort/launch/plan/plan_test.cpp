#include "cohort/launch/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort::launch {
namespace {

using cluster::TaskId;
using cluster::TaskType;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// Three workers and a parameter server, in a launcher with a few variables of its own.
class PlannerTest : public ::testing::Test {
 protected:
  PlannerTest() {
    options_.command = {"./train"};
    options_.workers = 3;
    options_.ps = 1;
    identity_.job = "the-job";
    identity_.host = "here";
    identity_.output = "/out";
  }

  Planner planner() { return {options_, identity_, 2, ports_, inherited_}; }

  JobOptions options_;
  JobIdentity identity_;
  PortReservation ports_;
  cluster::Environment inherited_{{"HOME", "/folder"}, {"SLURM_PROCID", "7"}};
};

TEST_F(PlannerTest, EachTaskIsToldOfItselfAndOfAll) {
  const Planner planner = this->planner();
  const auto first = planner.plan({TaskType::worker, 0}).environment;
  const auto last = planner.plan({TaskType::worker, 2}).environment;
  const auto server = planner.plan({TaskType::ps, 0}).environment;
  EXPECT_EQ(first.at("COHORT_RANK"), "0");
  EXPECT_EQ(last.at("COHORT_RANK"), "2");
  EXPECT_EQ(server.at("COHORT_RANK"), "-1");
  EXPECT_EQ(last.at("COHORT_SIZE"), "3");
  EXPECT_EQ(first.at("COHORT_CLUSTER"), server.at("COHORT_CLUSTER"));
  EXPECT_THAT(last.at("TF_CONFIG"), HasSubstr(R"("task":{"type":"worker","index":2})"));
  EXPECT_THAT(server.at("TF_CONFIG"), HasSubstr(first.at("COHORT_CLUSTER")));
  EXPECT_EQ(last.at("HOME"), "/folder");
  EXPECT_FALSE(last.contains("SLURM_PROCID"));
  EXPECT_EQ(planner.log_of({TaskType::worker, 2}), "/out/logs/worker-2.attempt2.log");
}

TEST_F(PlannerTest, ATaskThatIsStartedAgainIsToldHowOften) {
  const Planner planner = this->planner();
  EXPECT_FALSE(planner.plan({TaskType::ps, 0}).environment.contains("COHORT_INCARNATION"));
  EXPECT_EQ(planner.plan({TaskType::ps, 0}, 3).environment.at("COHORT_INCARNATION"), "3");
}

TEST_F(PlannerTest, ATaskThatMovesIsToldToAllThatStartLater) {
  Planner planner = this->planner();
  EXPECT_THAT(planner.plan({TaskType::worker, 0}).environment.at("COHORT_CLUSTER"),
              Not(HasSubstr("far-away")));
  planner.place({TaskType::worker, 1}, "far-away.invalid");
  const PlannedTask stays = planner.plan({TaskType::worker, 0});
  EXPECT_THAT(stays.environment.at("COHORT_CLUSTER"), HasSubstr("far-away.invalid"));
  EXPECT_EQ(stays.environment.at("COHORT_LOCAL_SIZE"), "2");
  const PlannedTask moved = planner.plan({TaskType::worker, 1});
  EXPECT_EQ(moved.host, "far-away.invalid");
  EXPECT_FALSE(moved.remote_command.empty());
  EXPECT_EQ(moved.added.at("COHORT_CROSS_RANK"), "1");
}

TEST_F(PlannerTest, WhatChangesIsToldOfAllTasksTogether) {
  for (const PlannedTask& task : planner().all()) {
    EXPECT_THAT(task.removed, Contains("SLURM_PROCID"));
    EXPECT_FALSE(task.added.contains("HOME"));
    EXPECT_TRUE(task.added.contains("COHORT_RANK"));
  }
}

}  // namespace
}  // namespace cohort::launch

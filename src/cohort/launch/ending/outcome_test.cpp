#include "cohort/launch/ending/outcome.h"

#include <gtest/gtest.h>

#include <csignal>

namespace cohort::launch {
namespace {

using cluster::TaskId;
using cluster::TaskType;
using Effect = Outcome::Effect;

const TaskId kChief{TaskType::chief, 0};
const TaskId kWorker0{TaskType::worker, 0};
const TaskId kWorker1{TaskType::worker, 1};
const TaskId kPs0{TaskType::ps, 0};
const TaskId kEvaluator{TaskType::evaluator, 0};
const ExitStatus kOk{};

TEST(Outcome, AllWorkersMustEndAndServersNeedNot) {
  Outcome outcome({kWorker0, kWorker1, kPs0, kEvaluator}, SuccessPolicy::all_workers);
  EXPECT_EQ(outcome.on_exit(kWorker1, kOk), Effect::none);
  EXPECT_EQ(outcome.on_exit(kWorker0, kOk), Effect::success);
}

TEST(Outcome, AServerThatLeavesEarlyDoesNotEndTheJob) {
  Outcome outcome({kWorker0, kPs0}, SuccessPolicy::all_workers);
  EXPECT_EQ(outcome.on_exit(kPs0, kOk), Effect::none);
}

TEST(Outcome, ThePolicyChiefIsTheChiefsWordAlone) {
  Outcome outcome({kChief, kWorker0, kWorker1, kPs0}, SuccessPolicy::chief);
  EXPECT_EQ(outcome.on_exit(kWorker0, kOk), Effect::none);
  EXPECT_EQ(outcome.on_exit(kChief, kOk), Effect::success);
}

TEST(Outcome, WithoutASeparateChiefWorker0IsTheChief) {
  Outcome outcome({kWorker0, kWorker1}, SuccessPolicy::chief);
  EXPECT_EQ(outcome.on_exit(kWorker0, kOk), Effect::success);
}

TEST(Outcome, Worker0MeansWorker0EvenBesideAChief) {
  Outcome outcome({kChief, kWorker0, kWorker1}, SuccessPolicy::worker0);
  EXPECT_EQ(outcome.on_exit(kChief, kOk), Effect::none);
  EXPECT_EQ(outcome.on_exit(kWorker0, kOk), Effect::success);
}

TEST(Outcome, AFailedWorkerOrServerFailsTheJobButAnEvaluatorDoesNot) {
  Outcome outcome({kWorker0, kWorker1, kPs0, kEvaluator}, SuccessPolicy::all_workers);
  EXPECT_EQ(outcome.on_exit(kEvaluator, {.code = 1}), Effect::none);
  EXPECT_EQ(outcome.on_exit(kPs0, {.signal = SIGKILL}), Effect::failure);
  EXPECT_EQ(outcome.on_exit(kWorker1, {.code = 3}), Effect::failure);
}

TEST(Outcome, Exit42And143AndSigtermArePreemptions) {
  for (ExitStatus status :
       {ExitStatus{.code = 42}, ExitStatus{.code = 143}, ExitStatus{.signal = SIGTERM}}) {
    Outcome outcome({kWorker0}, SuccessPolicy::all_workers);
    EXPECT_EQ(outcome.on_exit(kWorker0, status), Effect::preemption);
  }
  EXPECT_FALSE(is_preemption({.signal = SIGKILL}));
  EXPECT_FALSE(is_preemption({.code = 1}));
}

}  // namespace
}  // namespace cohort::launch

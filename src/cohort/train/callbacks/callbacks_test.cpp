#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/callbacks/early_stopping.h"
#include "cohort/train/callbacks/horovod.h"
#include "cohort/train/callbacks/learning_rate_schedules.h"
#include "cohort/train/callbacks/log_files.h"
#include "cohort/train/callbacks/model_checkpoint.h"
#include "cohort/train/callbacks/reduce_on_plateau.h"
#include "cohort/train/callbacks/stop_on_signal.h"
#include "cohort/train/training_fixture_test.h"

namespace cohort::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace testing;

FitResult fit_with(std::vector<std::shared_ptr<Callback>> callbacks, std::int64_t epochs,
                   int replicas = 1, double rate = 0.01) {
  auto context = job_of(replicas);
  torch::manual_seed(3);
  SmallNet net;
  Trainer trainer(context.strategy(), net, sgd(net, rate), cross_entropy, {.batch_size = 10});
  auto result = trainer.fit(small_images(40), {.epochs = epochs,
                                               .validation = small_images(12, false),
                                               .callbacks = std::move(callbacks),
                                               .progress = false});
  context.leave();
  return result;
}

// Notes the learning rate in use at every step.
struct NoteRates : Callback {
  void on_epoch_begin(FitState& fit) override { rates.push_back(fit.learning_rate().get()); }
  std::vector<double> rates;
};

// Where no callback may ask for anything in steps, workers do not agree after each of them.
TEST(Callbacks, WhatIsAskedForInAStepByOneThatSaysItAsksForNothingIsHeededAtTheEpochsEnd) {
  struct Stop : Callback {
    explicit Stop(bool requests) : requests_(requests) {}
    bool requests_in_steps() const override { return requests_; }
    void on_step_end(FitState& fit) override {
      if (fit.step_in_epoch == 2) fit.stop("enough");
    }
    bool requests_;
  };
  for (const bool requests : {true, false}) {
    const FitResult result = fit_with({std::make_shared<Stop>(requests)}, 3);
    EXPECT_EQ(result.stopped, "enough");
    EXPECT_EQ(result.history.size(), requests ? 0u : 1u);
  }
}

TEST(Callbacks, AreCalledByTheirOrderWhateverTheListsOrder) {
  struct Note : Callback {
    Note(std::vector<std::string>& notes, std::string name, CallbackOrder order)
        : notes_(notes), name_(std::move(name)), order_(order) {}
    CallbackOrder order() const override { return order_; }
    void on_epoch_end(FitState&) override { notes_.push_back(name_); }
    std::vector<std::string>& notes_;
    std::string name_;
    CallbackOrder order_;
  };
  std::vector<std::string> notes;
  fit_with({std::make_shared<Note>(notes, "writer", CallbackOrder::writers),
            std::make_shared<Note>(notes, "mine", CallbackOrder::user),
            std::make_shared<Note>(notes, "rate", CallbackOrder::learning_rate),
            std::make_shared<Note>(notes, "average", CallbackOrder::average)},
           1);
  EXPECT_THAT(notes, ElementsAre("average", "rate", "mine", "writer"));
}

TEST(Callbacks, WarmUpGoesFromTheBaseRateToItTimesTheReplicas) {
  auto rates = std::make_shared<NoteRates>();
  fit_with({std::make_shared<LearningRateWarmup>(2), rates}, 4, /*replicas=*/3);
  EXPECT_THAT(rates->rates, ElementsAre(0.01, ::testing::DoubleEq(0.02), ::testing::DoubleEq(0.03),
                                        ::testing::DoubleEq(0.03)));
}

TEST(Callbacks, SchedulesOfOneListMultiply) {
  auto rates = std::make_shared<NoteRates>();
  fit_with({std::make_shared<LearningRateWarmup>(1, 2), std::make_shared<StepDecay>(2, 0.5), rates},
           5);
  using ::testing::DoubleEq;
  EXPECT_THAT(rates->rates,
              ElementsAre(0.01, DoubleEq(0.02), DoubleEq(0.01), DoubleEq(0.01), DoubleEq(0.005)));
}

TEST(Callbacks, CosineDecayEndsAtItsLeast) {
  auto rates = std::make_shared<NoteRates>();
  fit_with({std::make_shared<CosineDecay>(2, 0.1), rates}, 3);
  EXPECT_DOUBLE_EQ(rates->rates[1], 0.01 * 0.55);
  EXPECT_DOUBLE_EQ(rates->rates[2], 0.001);
}

TEST(Callbacks, EveryReplicaTrainsWithTheScheduledRate) {
  std::vector<std::shared_ptr<Callback>> decay{std::make_shared<StepDecay>(1, 0.1)};
  auto context = job_of(2);
  auto two = fit_with(decay, 3, 2);
  EXPECT_EQ(two.weights, fit_with(decay, 3, 2).weights);
  EXPECT_NE(two.weights, fit_with({}, 3, 2).weights);
  context.leave();
}

TEST(Callbacks, EarlyStoppingEndsAllReplicas) {
  // A rate of 0 improves nothing.
  auto result = fit_with(
      {std::make_shared<EarlyStopping>(Watch{.name = "val_loss", .min_delta = 10}, 2)}, 10, 2, 0);
  EXPECT_EQ(result.history.size(), 3u);
  EXPECT_THAT(result.stopped, HasSubstr("val_loss has not improved for 2 epochs"));
}

TEST(Callbacks, NameWhatThereIsToWatch) {
  EXPECT_THAT(message_of<InvalidInput>(
                  [] { fit_with({std::make_shared<EarlyStopping>(Watch{.name = "val_f1"})}, 1); }),
              ::testing::AllOf(HasSubstr("no 'val_f1' to watch"), HasSubstr("val_loss")));
}

TEST(Callbacks, PlateauLowersTheRate) {
  auto rates = std::make_shared<NoteRates>();
  fit_with({std::make_shared<ReduceLearningRateOnPlateau>(
                PlateauOptions{.watch = {.name = "loss", .min_delta = 10},
                               .factor = 0.5,
                               .patience = 1,
                               .least_rate = 0.004}),
            rates},
           5);
  using ::testing::DoubleEq;
  EXPECT_THAT(rates->rates,
              ElementsAre(0.01, 0.01, DoubleEq(0.005), DoubleEq(0.004), DoubleEq(0.004)));
}

TEST(Callbacks, CsvHasALineAnEpoch) {
  ScratchFolder folder;
  fit_with({std::make_shared<CsvLog>(folder.path() / "log.csv")}, 3);
  std::ifstream file(folder.path() / "log.csv");
  std::string line;
  std::vector<std::string> lines;
  while (std::getline(file, line)) lines.push_back(line);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], "step,epoch,loss,lr,val_loss");
  EXPECT_THAT(lines[3], ::testing::StartsWith("12,3,"));
}

TEST(Callbacks, OneMethodIsEnough) {
  struct StopAfterThree : Callback {
    void on_step_end(FitState& fit) override {
      if (fit.step == 3) fit.stop("three is enough");
    }
  };
  auto result = fit_with({std::make_shared<StopAfterThree>()}, 5, 2);
  EXPECT_EQ(result.step, 3);
  EXPECT_EQ(result.stopped, "three is enough");
}

TEST(Callbacks, AnErrorOfOneEndsFitWithThatError) {
  struct Fails : Callback {
    void on_step_end(FitState&) override { throw InvalidInput("the disk is on fire"); }
  };
  EXPECT_THAT(message_of<InvalidInput>([] { fit_with({std::make_shared<Fails>()}, 1, 2); }),
              HasSubstr("the disk is on fire"));
}

// Trains with checkpoints in `folder` and goes on from what is there.
FitResult go_on(const std::filesystem::path& folder, std::int64_t epochs,
                std::vector<std::shared_ptr<Callback>> callbacks, int replicas = 1,
                double rate = 0.05) {
  auto context = job_of(replicas);
  torch::manual_seed(3);
  SmallNet net;
  callbacks.push_back(std::make_shared<ModelCheckpoint>(folder));
  Trainer trainer(context.strategy(), net, sgd(net, rate), cross_entropy,
                  {.batch_size = 10, .virtual_shards = 2});
  auto result = trainer.fit(small_images(40), {.epochs = epochs,
                                               .validation = small_images(12, false),
                                               .callbacks = std::move(callbacks),
                                               .progress = false,
                                               .resume = folder});
  context.leave();
  return result;
}

TEST(Callbacks, AnEarlyStoppedTrainingStaysStopped) {
  ScratchFolder folder;
  const auto stopping = [](std::int64_t patience) {
    return std::make_shared<EarlyStopping>(Watch{.name = "val_loss", .min_delta = 10}, patience);
  };
  const auto first = go_on(folder.path(), 10, {stopping(2)});
  ASSERT_EQ(first.history.size(), 3u);
  for (int restart = 0; restart < 2; ++restart) {
    const auto again = go_on(folder.path(), 10, {stopping(2)});
    EXPECT_EQ(again.step, first.step);
    EXPECT_EQ(again.weights, first.weights);
    EXPECT_THAT(again.stopped, HasSubstr("has not improved"));
  }
  EXPECT_EQ(go_on(folder.path(), 10, {stopping(3)}).step, first.step + 4);  // one epoch more
}

TEST(Callbacks, OfOneNameKeepTheirOwnState) {
  struct Count : Callback {
    explicit Count(int by) : step(by) {}
    std::string state_name() const override { return "count"; }
    nlohmann::json save_state() const override { return count; }
    void load_state(const nlohmann::json& state) override { state.get_to(count); }
    void on_step_end(FitState&) override { count += step; }
    int step, count = 0;
  };
  ScratchFolder folder;
  go_on(folder.path(), 1, {std::make_shared<Count>(1), std::make_shared<Count>(10)});
  auto ones = std::make_shared<Count>(1), tens = std::make_shared<Count>(10);
  go_on(folder.path(), 2, {ones, tens});
  EXPECT_EQ(ones->count, 8);
  EXPECT_EQ(tens->count, 80);
}

TEST(Callbacks, ASignalStopsAllAfterTheStepAndTheRestHasTheSameBits) {
  struct Raise : Callback {
    void on_step_end(FitState& fit) override {
      if (fit.step == 6) ::raise(SIGUSR1);
    }
  };
  ScratchFolder straight, stopped;
  const auto whole = go_on(straight.path(), 3, {}, 2);
  struct sigaction before {
  }, after{};
  ::sigaction(SIGUSR1, nullptr, &before);
  const auto stop = std::make_shared<StopOnSignal>(std::vector<int>{SIGUSR1});
  const auto half = go_on(stopped.path(), 3, {std::make_shared<Raise>(), stop}, 2);
  EXPECT_EQ(half.step, 6);
  EXPECT_THAT(half.stopped, HasSubstr("interrupted: signal 10"));
  const auto rest = go_on(stopped.path(), 3, {}, 2);
  EXPECT_EQ(rest.weights, whole.weights);
  EXPECT_EQ(rest.step, whole.step);
  ::sigaction(SIGUSR1, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

TEST(Callbacks, AFinishedTrainingSaysThatNothingIsLeft) {
  ScratchFolder folder;
  const auto first = go_on(folder.path(), 1, {});
  ::testing::internal::CaptureStderr();
  const auto again = go_on(folder.path(), 1, {});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("nothing left to do at step 4: 1 of 1 epochs are done; raise epochs"));
  EXPECT_EQ(again.weights, first.weights);
}

TEST(Callbacks, AreToldOfEveryStepsBeginning) {
  struct Count : Callback {
    void on_step_begin(FitState& fit) override { begun.push_back(fit.step); }
    std::vector<std::int64_t> begun;
  };
  auto count = std::make_shared<Count>();
  fit_with({count}, 1, 2);
  EXPECT_THAT(count->begun, ElementsAre(0, 1, 2, 3));
}

}  // namespace
}  // namespace cohort::train

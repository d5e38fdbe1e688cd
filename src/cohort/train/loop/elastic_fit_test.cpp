// Trainer::fit() in an elastic job, with its workers as threads of this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <mutex>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/membership/ledger/ledger.h"
#include "cohort/train/callbacks/model_checkpoint.h"
#include "cohort/train/elastic/elastic_workers_test.h"
#include "cohort/train/elastic/view_driver.h"
#include "cohort/train/loop/resume.h"
#include "cohort/train/metrics/classification.h"
#include "cohort/train/metrics/means.h"
#include "cohort/train/plain_net_test.h"
#include "cohort/train/training_fixture_test.h"

namespace cohort::train {
namespace {

using ::testing::HasSubstr;
using namespace testing;
using elastic::testing::ElasticWorkers;
using elastic::testing::Killed;

constexpr int kMost = 4;
// Validation measures averaged weights, which a newcomer must have too; metrics of both kinds.
const TrainerOptions kOptions{
    .batch_size = 16,
    .virtual_shards = kMost,
    .metrics = {f1_score({.classes = 3, .average = Average::macro}), perplexity()},
    .ema = {.decay = 0.9}};

// An elastic job whose workers return what fit() did.
class FitWorkers : public ElasticWorkers {
 public:
  explicit FitWorkers(int initial) : ElasticWorkers(initial, kMost) {}

  using Work = std::function<FitResult(Context& context)>;

  void start(int index, Work work, int incarnation = 0) {
    const auto body = [this, work = std::move(work)](Context& context) {
      FitResult result = work(context);
      const std::lock_guard lock(mutex_);
      results_.push_back(std::move(result));
    };
    ElasticWorkers::start(index, body, {}, incarnation);
  }

  // Waits for all workers; the results of those that came to the end.
  std::vector<FitResult> finish() {
    for (const auto& [name, ending] : wait())
      EXPECT_TRUE(ending.empty() || ending == "killed") << name << ": " << ending;
    return results_;
  }

 private:
  std::mutex mutex_;
  std::vector<FitResult> results_;
};

// Calls `act` after so many steps of the training, the first time.
struct AfterStep : Callback {
  AfterStep(std::int64_t s, std::function<void()> a) : step(s), act(std::move(a)) {}
  void on_step_end(FitState& fit) override {
    if (fit.step == step && act) std::exchange(act, {})();
  }
  std::int64_t step;
  std::function<void()> act;
};

// Changes each update in a way of its own.
struct TiltByStep : GradientCallback {
  void on_before_update(FitState& fit) override {
    for (torch::Tensor& parameter : fit.model().parameters())
      parameter.mutable_grad().mul_(1 + 0.01 * static_cast<double>(fit.step));
  }
};

Trainer make_trainer(Context& context) {
  static std::mutex making;  // values are drawn from the one generator
  std::unique_lock lock(making);
  torch::manual_seed(3);
  PlainNet net;
  lock.unlock();
  auto rule = std::make_shared<torch::optim::SGD>(net->parameters(),
                                                  torch::optim::SGDOptions(0.05).momentum(0.9));
  return {context.strategy(), net, rule, cross_entropy, kOptions};
}

FitResult train(Context& context, FitOptions fit = {}) {
  fit.epochs = 4;
  fit.progress = false;
  fit.validation = small_images(20, false);
  fit.callbacks.push_back(std::make_shared<TiltByStep>());
  return make_trainer(context).fit(small_images(50, false), fit);
}

FitWorkers::Work plain() {
  return [](Context& context) { return train(context); };
}

FitWorkers::Work with(std::int64_t step, std::function<void()> act) {
  return [=](Context& context) {
    return train(context, {.callbacks = {std::make_shared<AfterStep>(step, act)}});
  };
}

FitWorkers::Work killed_after(std::int64_t step) {
  return with(step, [] { throw Killed(); });
}

// Goes on after so many steps when that other worker has come.
FitWorkers::Work waiting_for(std::int64_t step, const std::string& task, int incarnation) {
  return [=](Context& context) {
    const auto wait = [&] { ElasticWorkers::await_newcomer(context, task, incarnation); };
    return train(context, {.callbacks = {std::make_shared<AfterStep>(step, wait)}});
  };
}

// The views that were installed.
std::vector<membership::View> views_of(FitWorkers& job) {
  std::vector<membership::View> views;
  for (const auto& event : job.job().events(membership::MembershipEvent::Kind::installed))
    views.push_back(event.view);
  return views;
}

const FitResult& undisturbed() {
  static const FitResult result = [] {
    Context alone = job_of(1);
    return train(alone);
  }();
  return result;
}

void expect_undisturbed(FitWorkers& job, std::size_t survivors) {
  const auto results = job.finish();
  EXPECT_EQ(results.size(), survivors);
  for (const FitResult& result : results) {
    EXPECT_EQ(result.weights, undisturbed().weights);
    EXPECT_EQ(result.history, undisturbed().history);
    EXPECT_EQ(result.step, undisturbed().step);
  }
  const auto report = membership::verify(membership::read_ledger(job.folder() / "ledger"));
  EXPECT_THAT(report.problems, ::testing::IsEmpty());
  EXPECT_EQ(report.epochs.size(), 4u);
}

TEST(Elastic, AnUndisturbedJobHasTheBitsOfOneProcess) {
  FitWorkers job(2);
  for (int i = 0; i < 2; ++i) job.start(i, plain());
  expect_undisturbed(job, 2);
  EXPECT_EQ(views_of(job).size(), 1u);
}

TEST(Elastic, ALostWorkerChangesNoBit) {
  FitWorkers job(3);
  job.start(0, plain());
  job.start(1, killed_after(5));
  job.start(2, plain());
  expect_undisturbed(job, 2);
  EXPECT_EQ(views_of(job).size(), 2u);
}

TEST(Elastic, TheChiefMayBeLost) {
  FitWorkers job(3);
  job.start(0, killed_after(4));
  job.start(1, killed_after(9));
  job.start(2, plain());
  expect_undisturbed(job, 1);
}

TEST(Elastic, ANewcomerTakesPartInTheMiddle) {
  FitWorkers job(2);
  std::promise<void> due;
  job.start(0, with(3, [&] { due.set_value(); }));
  job.start(1, waiting_for(5, "worker/2", 0));
  due.get_future().wait();
  job.start(2, plain());
  expect_undisturbed(job, 3);
  ASSERT_EQ(views_of(job).size(), 2u);
  EXPECT_EQ(views_of(job)[1].members.back().stage, membership::kNoState);
}

TEST(Elastic, ALostWorkerComesBack) {
  FitWorkers job(3);
  std::promise<void> lost;
  job.start(0, waiting_for(9, "worker/1", 1));
  job.start(1, with(6, [&] {
              lost.set_value();
              throw Killed();
            }));
  job.start(2, plain());
  lost.get_future().wait();
  job.start(1, plain(), 1);
  expect_undisturbed(job, 3);
}

struct StopAfter : Callback {
  explicit StopAfter(std::int64_t s) : step(s) {}
  void on_step_end(FitState& fit) override {
    if (fit.step == step) fit.stop("enough");
  }
  std::int64_t step;
};

// Stops after 10 steps of the first data, then goes on with other data.
FitResult train_twice(Context& context, std::vector<std::shared_ptr<Callback>> callbacks) {
  Trainer trainer = make_trainer(context);
  const FitResult first = trainer.fit(small_images(50, false),
                                      {.epochs = 4, .callbacks = callbacks, .progress = false});
  EXPECT_EQ(first.step, 10);
  EXPECT_FALSE(first.stopped.empty());
  return trainer.fit(small_images(30, false),
                     {.epochs = 5, .callbacks = {callbacks.front()}, .progress = false});
}

TEST(Elastic, LaterFitsGoOnWithTheLastMembers) {
  FitWorkers job(3);
  const auto folder = job.folder() / "checkpoints";
  std::promise<void> lost;
  const auto twice = [&](std::shared_ptr<Callback> callback) {
    return [&, callback](Context& context) {
      return train_twice(context, {std::make_shared<ModelCheckpoint>(folder), callback});
    };
  };
  job.start(0, [&](Context& context) {
    const auto wait = [&] { ElasticWorkers::await_newcomer(context, "worker/1", 1); };
    return train_twice(
        context, {std::make_shared<ModelCheckpoint>(folder), std::make_shared<AfterStep>(6, wait)});
  });
  job.start(1, twice(std::make_shared<AfterStep>(4, [&] {
              lost.set_value();
              throw Killed();
            })));
  job.start(2, twice(std::make_shared<StopAfter>(10)));  // only one asks for it
  lost.get_future().wait();
  job.start(1, twice(std::make_shared<StopAfter>(1000)), 1);
  const auto results = job.finish();
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(views_of(job).back().members.back().stage, membership::kNoState) << "no worker joined";

  Context alone = job_of(1);
  ScratchFolder elsewhere;
  const FitResult expected = train_twice(
      alone,
      {std::make_shared<ModelCheckpoint>(elsewhere.path()), std::make_shared<StopAfter>(10)});
  EXPECT_GT(expected.step, 10);
  for (const FitResult& result : results) {
    EXPECT_EQ(result.step, expected.step);
    EXPECT_EQ(result.weights, expected.weights);
  }
}

TEST(Elastic, TheLastCheckpointKnowsThatTrainingWasStoppedAndByWhichJob) {
  FitWorkers job(2);
  const auto folder = job.folder() / "checkpoints";
  job.start(0, [&](Context& context) {
    return train(context, {.callbacks = {std::make_shared<ModelCheckpoint>(folder)}});
  });
  job.start(1, [&](Context& context) {
    return train(context, {.callbacks = {std::make_shared<ModelCheckpoint>(folder),
                                         std::make_shared<StopAfter>(8)}});  // an epoch's last
  });
  job.finish();
  const auto last = load_latest(folder);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->state.step, 8);
  EXPECT_NE(last->state.extra.value(kStopReason, ""), "");
  EXPECT_EQ(last->state.extra.value(kJob, ""), "test");
}

// Calls `act` when training begins.
struct AtTheBeginning : Callback {
  explicit AtTheBeginning(std::function<void()> a) : act(std::move(a)) {}
  void on_train_begin(FitState&) override { act(); }
  std::function<void()> act;
};

TEST(Elastic, AWorkerLostBeforeTheFirstStepMeansToBeginAgain) {
  for (const int lost : {0, 2}) {
    FitWorkers job(3);
    for (int i = 0; i < 3; ++i)
      job.start(i, [i, lost](Context& context) {
        const auto crash = [i, lost] {
          if (i == lost) throw Killed();
        };
        return train(context, {.callbacks = {std::make_shared<AtTheBeginning>(crash)}});
      });
    expect_undisturbed(job, 2);
  }
}

TEST(Elastic, TheNewChiefWritesCheckpoints) {
  FitWorkers job(2);
  const auto saving = [&](bool crashes) {
    return [&, crashes](Context& context) {
      std::vector<std::shared_ptr<Callback>> callbacks{
          std::make_shared<ModelCheckpoint>(job.folder() / "checkpoints")};
      if (crashes) callbacks.push_back(std::make_shared<AfterStep>(6, [] { throw Killed(); }));
      return train(context, {.callbacks = callbacks});
    };
  };
  job.start(0, saving(true));
  job.start(1, saving(false));
  expect_undisturbed(job, 1);
  const auto last = load_latest(job.folder() / "checkpoints");
  ASSERT_TRUE(last);
  EXPECT_EQ(last->state.step, undisturbed().step);
}

TEST(Elastic, AFailureThatComesAgainAndAgainEndsTheTraining) {
  FitWorkers job(2);
  std::atomic<int> failures = 0;
  for (int i = 0; i < 2; ++i)
    job.start(i, [&](Context& context) -> FitResult {
      struct Failing : Callback {
        explicit Failing(std::atomic<int>& count) : failures(count) {}
        void on_step_end(FitState& fit) override {
          if (fit.step != 3) return;
          ++failures;
          throw TimeoutError("no answer");
        }
        std::atomic<int>& failures;
      };
      EXPECT_THAT(message_of<Error>([&] {
                    train(context, {.callbacks = {std::make_shared<Failing>(failures)}});
                  }),
                  HasSubstr("failed 10 times in a row"));
      throw Killed();
    });
  job.finish();
  EXPECT_GE(failures, elastic::kMostFruitlessChanges + 1);
}

TEST(Elastic, RefusesByNameWhatCannotChange) {
  FitWorkers job(1);
  job.start(0, [&](Context& context) {
    torch::manual_seed(3);
    PlainNet net;
    auto rule = std::make_shared<torch::optim::SGD>(net->parameters(), 0.1);
    Trainer trainer(context.strategy(), net, rule, cross_entropy,
                    {.batch_size = 16, .deterministic = false});
    EXPECT_THAT(message_of<InvalidInput>([&] { trainer.fit(small_images(50, false)); }),
                HasSubstr("deterministic"));
    return FitResult{};
  });
  job.finish();
}

}  // namespace
}  // namespace cohort::train

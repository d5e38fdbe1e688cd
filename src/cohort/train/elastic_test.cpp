// Elastic training, all workers as threads of this process; a worker is lost by an exception that
// nobody but its thread sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/cluster/store/store_server.h"
#include "cohort/membership/ledger/ledger.h"
#include "cohort/membership/service/coordinator_service.h"
#include "cohort/train/callbacks/model_checkpoint.h"
#include "cohort/train/plain_net_test.h"
#include "cohort/train/resume.h"
#include "cohort/train/training_fixture_test.h"

namespace cohort::train {
namespace {

using ::testing::HasSubstr;
using namespace testing;

constexpr int kMost = 4;
const TrainerOptions kOptions{.batch_size = 16, .virtual_shards = kMost};

struct Crash {};

// An elastic job without a launcher: the store, the coordinator, and workers as threads.
class ElasticJob {
 public:
  explicit ElasticJob(int initial, int least = 1)
      : service_({.store = store_.address(),
                  .secret = {},
                  .prefix = membership::mailbox_prefix("job", 1),
                  .coordinator = {.least = least,
                                  .most = kMost,
                                  .initial = initial,
                                  .lease = std::chrono::seconds(2)},
                  .on_event = [this](const membership::MembershipEvent& event) { note(event); }}) {}

  using Work = std::function<FitResult(Context& context)>;

  void start(int index, Work work, int incarnation = 0) {
    threads_.emplace_back([this, index, incarnation, work = std::move(work)] {
      cluster::Environment environment{{"COHORT_TASK_TYPE", "worker"},
                                       {"COHORT_TASK_INDEX", std::to_string(index)},
                                       {"COHORT_RANK", std::to_string(index)},
                                       {"COHORT_SIZE", std::to_string(kMost)},
                                       {"COHORT_JOB", "job"},
                                       {"COHORT_OUTPUT", folder_.path().string()},
                                       {"COHORT_INCARNATION", std::to_string(incarnation)},
                                       {"COHORT_ELASTIC", "1:" + std::to_string(kMost)},
                                       {"COHORT_STORE", to_string(store_.address())}};
      try {
        Context context = init(environment, {});
        FitResult result = work(context);
        context.leave();
        std::lock_guard lock(mutex_);
        results_.push_back(std::move(result));
      } catch (const Crash&) {
      } catch (const std::exception& error) {
        ADD_FAILURE() << "worker/" << index << ": " << error.what();
      }
    });
  }

  // Waits for all workers; the results of those that came to the end.
  std::vector<FitResult> finish() {
    for (auto& thread : threads_) thread.join();
    threads_.clear();
    return results_;
  }

  std::filesystem::path folder() const { return folder_.path(); }
  std::vector<membership::View> views() {
    std::lock_guard lock(mutex_);
    return views_;
  }

 private:
  void note(const membership::MembershipEvent& event) {
    if (event.kind != membership::MembershipEvent::Kind::installed) return;
    std::lock_guard lock(mutex_);
    views_.push_back(event.view);
  }

  ScratchFolder folder_;
  std::mutex mutex_;
  std::vector<FitResult> results_;
  std::vector<membership::View> views_;
  cluster::StoreServer store_;
  membership::CoordinatorService service_;
  std::vector<std::thread> threads_;
};

// Calls `act` after so many steps of the training.
struct AfterStep : Callback {
  AfterStep(std::int64_t s, std::function<void()> a) : step(s), act(std::move(a)) {}
  void on_step_end(FitState& fit) override {
    if (fit.step == step) act();
  }
  std::int64_t step;
  std::function<void()> act;
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
  return make_trainer(context).fit(small_images(50, false), fit);
}

ElasticJob::Work plain() {
  return [](Context& context) { return train(context); };
}

ElasticJob::Work with(std::int64_t step, std::function<void()> act) {
  return [=](Context& context) {
    return train(context, {.callbacks = {std::make_shared<AfterStep>(step, act)}});
  };
}

ElasticJob::Work crashing_after(std::int64_t step) {
  return with(step, [] { throw Crash(); });
}

const FitResult& undisturbed() {
  static const FitResult result = [] {
    Context alone = job_of(1);
    return train(alone);
  }();
  return result;
}

void expect_undisturbed(ElasticJob& job, std::size_t survivors) {
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
  ElasticJob job(2);
  for (int i = 0; i < 2; ++i) job.start(i, plain());
  expect_undisturbed(job, 2);
  EXPECT_EQ(job.views().size(), 1u);
}

TEST(Elastic, ALostWorkerChangesNoBit) {
  ElasticJob job(3);
  job.start(0, plain());
  job.start(1, crashing_after(5));
  job.start(2, plain());
  expect_undisturbed(job, 2);
  EXPECT_EQ(job.views().size(), 2u);
}

TEST(Elastic, TheChiefMayBeLost) {
  ElasticJob job(3);
  job.start(0, crashing_after(4));
  job.start(1, crashing_after(9));
  job.start(2, plain());
  expect_undisturbed(job, 1);
}

TEST(Elastic, ANewcomerTakesPartInTheMiddle) {
  ElasticJob job(2);
  std::promise<void> due;
  job.start(0, with(3, [&] { due.set_value(); }));
  // Long enough for the newcomer to come.
  job.start(1, with(5, [] { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }));
  due.get_future().wait();
  job.start(2, plain());
  expect_undisturbed(job, 3);
  ASSERT_EQ(job.views().size(), 2u);
  EXPECT_EQ(job.views()[1].members.back().stage, membership::kNoState);
}

TEST(Elastic, ALostWorkerComesBack) {
  ElasticJob job(3);
  std::promise<void> lost;
  job.start(0, with(9, [] { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }));
  job.start(1, with(6, [&] {
              lost.set_value();
              throw Crash();
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
  ElasticJob job(3);
  const auto folder = job.folder() / "checkpoints";
  std::promise<void> lost;
  const auto twice = [&](std::shared_ptr<Callback> callback) {
    return [&, callback](Context& context) {
      return train_twice(context, {std::make_shared<ModelCheckpoint>(folder), callback});
    };
  };
  job.start(0, twice(std::make_shared<AfterStep>(
                   6, [] { std::this_thread::sleep_for(std::chrono::milliseconds(300)); })));
  job.start(1, twice(std::make_shared<AfterStep>(4, [&] {
              lost.set_value();
              throw Crash();
            })));
  job.start(2, twice(std::make_shared<StopAfter>(10)));  // only one asks for it
  lost.get_future().wait();
  job.start(1, twice(std::make_shared<StopAfter>(1000)), 1);
  const auto results = job.finish();
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(job.views().back().members.back().stage, membership::kNoState) << "nobody joined";

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
  ElasticJob job(2);
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
  EXPECT_EQ(last->state.extra.value(kJob, ""), "job");
}

// Calls `act` when training begins.
struct AtTheBeginning : Callback {
  explicit AtTheBeginning(std::function<void()> a) : act(std::move(a)) {}
  void on_train_begin(FitState&) override { act(); }
  std::function<void()> act;
};

TEST(Elastic, AWorkerLostBeforeTheFirstStepMeansToBeginAgain) {
  for (const int lost : {0, 2}) {
    ElasticJob job(3);
    for (int i = 0; i < 3; ++i)
      job.start(i, [i, lost](Context& context) {
        const auto crash = [i, lost] {
          if (i == lost) throw Crash();
        };
        return train(context, {.callbacks = {std::make_shared<AtTheBeginning>(crash)}});
      });
    expect_undisturbed(job, 2);
  }
}

TEST(Elastic, TheNewChiefWritesCheckpoints) {
  ElasticJob job(2);
  const auto saving = [&](bool crashes) {
    return [&, crashes](Context& context) {
      std::vector<std::shared_ptr<Callback>> callbacks{
          std::make_shared<ModelCheckpoint>(job.folder() / "checkpoints")};
      if (crashes) callbacks.push_back(std::make_shared<AfterStep>(6, [] { throw Crash(); }));
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

TEST(Elastic, RefusesByNameWhatCannotChange) {
  ElasticJob job(1);
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

// Training with parameter servers, all tasks as threads of this process.
#include "cohort/train/sync/server_sync.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/net/socket.h"
#include "cohort/train/callbacks/early_stopping.h"
#include "cohort/train/metrics/classification.h"
#include "cohort/train/metrics/means.h"
#include "cohort/train/metrics/roc_auc.h"
#include "cohort/train/plain_net_test.h"
#include "cohort/train/training_fixture_test.h"

namespace cohort::train {
namespace {

using ::testing::HasSubstr;
using namespace testing;

using MakeRule = std::function<std::shared_ptr<torch::optim::Optimizer>(const PlainNet&)>;

std::shared_ptr<torch::optim::Optimizer> momentum_sgd(const PlainNet& net) {
  return std::make_shared<torch::optim::SGD>(net->parameters(),
                                             torch::optim::SGDOptions(0.05).momentum(0.9));
}
std::shared_ptr<torch::optim::Optimizer> adam(const PlainNet& net) {
  return std::make_shared<torch::optim::Adam>(net->parameters(), torch::optim::AdamOptions(0.01));
}

std::shared_ptr<torch::optim::Optimizer> plain_sgd(const PlainNet& net) {
  return std::make_shared<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.02));
}

const TrainerOptions kServedOptions{
    .batch_size = 16,
    .virtual_shards = 4,
    .metrics = {f1_score({.classes = 3, .average = Average::macro}), perplexity()}};

// What one worker does; by default one epoch of 50 samples: the last batch has 2.
FitResult train_served(Context& context, const MakeRule& rule, FitOptions fit = {},
                       const TrainerOptions& options = kServedOptions) {
  static std::mutex making;  // values are drawn from the one generator
  std::unique_lock lock(making);
  torch::manual_seed(3);
  PlainNet net;
  lock.unlock();
  fit.progress = false;
  Trainer trainer(context.strategy(), net, rule(net), cross_entropy, options);
  FitResult result = trainer.fit(small_images(50, false), fit);
  context.leave();
  return result;
}

// "localhost:PORT" with ports that are free now.
nlohmann::json free_addresses(int count) {
  std::vector<UniqueFd> held;
  nlohmann::json addresses = nlohmann::json::array();
  for (int i = 0; i < count; ++i) {
    held.push_back(listen_on(Endpoint::tcp("127.0.0.1", 0)));
    addresses.push_back(fmt::format("localhost:{}", local_endpoint(held.back().get()).port()));
  }
  return addresses;
}

// Runs a job of so many workers and servers; what each worker returned.
std::vector<FitResult> run_job(int workers, int servers, std::vector<std::string> flags,
                               const std::function<FitResult(Context&, int)>& work) {
  flags.push_back("--distribution_strategy=parameter_server");
  const nlohmann::json free = free_addresses(workers + servers);
  nlohmann::json cluster;
  for (int i = 0; i < workers + servers; ++i)
    cluster[i < workers ? "worker" : "ps"].push_back(free[static_cast<std::size_t>(i)]);
  std::vector<FitResult> results(static_cast<std::size_t>(workers));
  const auto run = [&](const std::string& type, int index) {
    try {
      const nlohmann::json config = {{"cluster", cluster},
                                     {"task", {{"type", type}, {"index", index}}}};
      Context context = init(cluster::Environment{{"TF_CONFIG", config.dump()}}, flags);
      if (context.is_service())
        EXPECT_EQ(context.serve(Deadline::after(std::chrono::seconds(60))), 0);
      else
        results[static_cast<std::size_t>(index)] = work(context, index);
    } catch (const std::exception& error) {
      ADD_FAILURE() << type << "/" << index << ": " << error.what();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < servers; ++i) threads.emplace_back(run, "ps", i);
    for (int i = 0; i < workers; ++i) threads.emplace_back(run, "worker", i);
  }
  return results;
}

TEST(ServerSync, SynchronousTrainingHasTheBitsOfAnAllReduce) {
  for (const MakeRule& rule : {MakeRule(momentum_sgd), MakeRule(adam)}) {
    Context alone = job_of(1);
    const FitResult expected = train_served(alone, rule, {.epochs = 2});
    for (const auto& result : run_job(2, 2, {}, [&](Context&context, int) {
           return train_served(context, rule, {.epochs = 2});
         })) {
      EXPECT_EQ(result.weights, expected.weights);
      EXPECT_EQ(result.step, expected.step);
      ASSERT_EQ(result.history.size(), 2u);
      for (const char* name : {"loss", "f1", "perplexity"})
        EXPECT_EQ(result.history[1].at(name), expected.history[1].at(name)) << name;
    }
  }
}

TEST(ServerSync, AsynchronousTrainingLearnsAndEndsWithOneModel) {
  const auto results = run_job(2, 1, {"--sync_replicas=false"}, [&](Context& context, int) {
    return train_served(context, plain_sgd, {.epochs = 20});
  });
  EXPECT_EQ(results[0].weights, results[1].weights);
  EXPECT_LT(results[0].history.back().at("loss"), 0.8 * results[0].history.front().at("loss"));
  EXPECT_TRUE(results[0].history.back().contains("ps_staleness_mean"));
}

TEST(ServerSync, TheChiefsValidationStopsAllWorkers) {
  const auto results = run_job(2, 1, {}, [&](Context& context, int) {
    FitOptions fit{.epochs = 30, .validation = small_images(20, false)};
    fit.callbacks = {
        std::make_shared<EarlyStopping>(Watch{.name = "val_loss", .min_delta = 100}, 2)};
    return train_served(context, momentum_sgd, fit);
  });
  EXPECT_LT(results[0].step, 30 * 4);
  EXPECT_EQ(results[0].step, results[1].step);
  EXPECT_EQ(results[0].weights, results[1].weights);
  EXPECT_TRUE(results[0].history.front().contains("val_loss"));
  EXPECT_FALSE(results[1].history.front().contains("val_loss"));
}

// Asks for a stop after so many steps of a fit().
struct StopAtStep : Callback {
  explicit StopAtStep(std::int64_t steps) : left(steps) {}
  void on_step_end(FitState& fit) override {
    if (--left == 0) fit.stop("enough");
  }
  std::int64_t left;
};

TEST(ServerSync, AStopEndsOneFitAndTheNextGoesOn) {
  for (const char* mode : {"--sync_replicas=true", "--sync_replicas=false"}) {
    const auto results = run_job(2, 1, {mode}, [&](Context& context, int index) {
      static std::mutex making;
      std::unique_lock lock(making);
      torch::manual_seed(3);
      PlainNet net;
      lock.unlock();
      Trainer trainer(context.strategy(), net, plain_sgd(net), cross_entropy, kServedOptions);
      FitOptions fit{.epochs = 60, .progress = false};
      if (index == 0) fit.callbacks = {std::make_shared<StopAtStep>(3)};
      EXPECT_LT(trainer.fit(small_images(50, false), fit).step, 240) << mode;
      if (index == 0) fit.callbacks = {std::make_shared<StopAtStep>(3)};
      const FitResult again = trainer.fit(small_images(50, false), fit);
      EXPECT_LT(again.step, 240) << mode;
      if (index == 0) {
        EXPECT_EQ(again.step, 8) << mode;  // a stop takes one step more
      }
      fit.callbacks.clear();
      FitResult last = trainer.fit(small_images(50, false), fit);
      context.leave();
      return last;
    });
    EXPECT_EQ(results[0].step, 240) << mode;
    EXPECT_EQ(results[1].step, 240) << mode;
    EXPECT_EQ(results[0].weights, results[1].weights) << mode;
  }
}

TEST(ServerSync, RefusesByNameWhatServersCannotDo) {
  run_job(1, 1, {}, [&](Context& context, int) {
    EXPECT_THAT(message_of<InvalidInput>([&] {
                  train_served(context, momentum_sgd, {}, {.batch_size = 16, .clip_norm = 0.5});
                }),
                HasSubstr("clip_norm 0.5"));
    EXPECT_THAT(message_of<InvalidInput>([&] {
                  train_served(context, momentum_sgd, {},
                               {.batch_size = 16, .ema = {.decay = 0.9}});
                }),
                HasSubstr("ema.decay 0.9"));
    EXPECT_THAT(message_of<InvalidInput>([&] {
                  train_served(context, momentum_sgd, {},
                               {.batch_size = 16, .metrics = {roc_auc()}});
                }),
                ::testing::AllOf(HasSubstr("metrics whose states have 2004 numbers"),
                                 HasSubstr("Servers add up 1024 numbers")));
    struct Changes : GradientCallback {
      void on_before_update(FitState&) override {}
    };
    EXPECT_THAT(message_of<InvalidInput>([&] {
                  train_served(context, momentum_sgd, {.callbacks = {std::make_shared<Changes>()}});
                }),
                HasSubstr("1 GradientCallbacks do not go with the strategy parameter_server"));
    PlainNet net;
    const std::vector<Phase> two{{"a", plain_sgd(net), cross_entropy},
                                 {"b", plain_sgd(net), cross_entropy}};
    EXPECT_THAT(message_of<InvalidInput>([&] {
                  Trainer trainer(context.strategy(), net, two, kServedOptions);
                  trainer.fit(small_images(50, false), {.progress = false});
                }),
                HasSubstr("2 phases do not go with the strategy parameter_server"));
    return train_served(context, momentum_sgd);
  });
}

TEST(ServerSync, ASecondTrainerIsRefused) {
  run_job(1, 1, {}, [&](Context& context, int) {
    PlainNet net, other;
    Trainer trainer(context.strategy(), net, plain_sgd(net), cross_entropy, kServedOptions);
    FitResult result = trainer.fit(small_images(50, false), {.progress = false});
    Trainer second(context.strategy(), other, plain_sgd(other), cross_entropy, kServedOptions);
    EXPECT_THAT(
        message_of<InvalidInput>([&] { second.fit(small_images(50, false), {.progress = false}); }),
        HasSubstr("hold the model of another Trainer already"));
    context.leave();
    return result;
  });
}

}  // namespace
}  // namespace cohort::train

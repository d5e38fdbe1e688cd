// Several updates from every batch: a GAN, and what else has more than one optimizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/callbacks/learning_rate_schedules.h"
#include "cohort/train/callbacks/model_checkpoint.h"
#include "cohort/train/elastic/elastic_workers_test.h"
#include "cohort/train/metrics/classification.h"
#include "cohort/train/training_fixture_test.h"

namespace cohort::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;

struct Points {
  torch::Tensor real, noise;
};

// Points on a line, each with noise of its own.
struct Line final : DatasetOf<Points> {
  std::int64_t size() const override { return 44; }
  Points get(std::span<const std::int64_t> indices, const DrawKey&) const override {
    const auto rows =
        torch::tensor(std::vector<std::int64_t>(indices.begin(), indices.end()), torch::kLong);
    const auto x = rows.to(torch::kFloat32).unsqueeze(1) / 22 - 1;
    return {torch::cat({x, 0.5 * x + 0.3}, 1),
            torch::cat({(rows * 7).remainder(5).unsqueeze(1), (rows * 3).remainder(4).unsqueeze(1),
                        rows.remainder(3).unsqueeze(1)},
                       1)
                    .to(torch::kFloat32) /
                2};
  }
};

struct GanImpl : torch::nn::Cloneable<GanImpl> {
  explicit GanImpl(double dropout = 0.2) : rate(dropout) { reset(); }
  void reset() override {
    using namespace torch::nn;  // NOLINT
    generator = register_module(
        "generator", Sequential(Linear(3, 8), BatchNorm1d(8), ReLU(), Dropout(rate), Linear(8, 2)));
    critic =
        register_module("critic", Sequential(Linear(2, 8), ReLU(), Dropout(rate), Linear(8, 1)));
  }
  double rate;
  torch::nn::Sequential generator{nullptr}, critic{nullptr};
};
TORCH_MODULE(Gan);

torch::Tensor is_real(Gan& net, const torch::Tensor& points, bool real) {
  const torch::Tensor says = net->critic->forward(points);
  return torch::binary_cross_entropy_with_logits(
      says, real ? torch::ones_like(says) : torch::zeros_like(says));
}

torch::Tensor critic_loss(Gan& net, const Points& batch) {
  return is_real(net, batch.real, true) +
         is_real(net, net->generator->forward(batch.noise).detach(), false);
}

torch::Tensor generator_loss(Gan& net, const Points& batch) {
  return is_real(net, net->generator->forward(batch.noise), true);
}

Gan make_gan(double dropout = 0.2) {
  torch::manual_seed(11);
  return Gan(dropout);
}

std::vector<Phase> phases_of(const Gan& net) {
  return {{"critic",
           std::make_shared<torch::optim::Adam>(net->critic->parameters(),
                                                torch::optim::AdamOptions(0.02)),
           critic_loss},
          {"generator",
           std::make_shared<torch::optim::SGD>(net->generator->parameters(),
                                               torch::optim::SGDOptions(0.1).momentum(0.5)),
           generator_loss}};
}

FitResult train_gan(int replicas, TrainerOptions options, FitOptions fit, Gan net = make_gan()) {
  Context context = job_of(replicas);
  fit.progress = false;
  Trainer trainer(context.strategy(), net, phases_of(net), options);
  FitResult result = trainer.fit(std::make_shared<Line>(), fit);
  context.leave();
  return result;
}

// As a LibTorch program writes it, in one process.
TEST(Phases, DoWhatALoopByHandDoes) {
  Gan by_hand = make_gan(0);
  const std::vector<Phase> rules = phases_of(by_hand);
  for (int epoch = 0; epoch < 2; ++epoch)
    for (std::int64_t first = 0; first < 44; first += 16) {
      std::vector<std::int64_t> rows(
          static_cast<std::size_t>(std::min<std::int64_t>(16, 44 - first)));
      std::iota(rows.begin(), rows.end(), first);
      const Points batch = Line().get(rows, {});
      rules[0].optimizer->zero_grad();
      critic_loss(by_hand, batch).backward();
      rules[0].optimizer->step();
      rules[1].optimizer->zero_grad();
      generator_loss(by_hand, batch).backward();
      rules[1].optimizer->step();
    }
  Gan trained = make_gan(0);
  train_gan(1, {.batch_size = 16}, {.epochs = 2, .shuffle = false}, trained);
  const auto expected = by_hand->named_parameters();
  for (const auto& item : trained->named_parameters())
    EXPECT_TRUE(torch::allclose(item.value(), expected[item.key()], 1e-5, 1e-6)) << item.key();
  EXPECT_FALSE(torch::equal(trained->generator->parameters()[0], make_gan(0)->parameters()[0]));
}

TEST(Phases, GiveTheSameBitsForAnyNumberOfReplicas) {
  const TrainerOptions options{.batch_size = 16, .virtual_shards = 6};
  const FitOptions fit{
      .epochs = 2, .validation = std::make_shared<Line>(), .validation_batch_size = 5};
  const FitResult alone = train_gan(1, options, fit);
  const Logs& last = alone.history.back();
  EXPECT_EQ(last.at("loss"), last.at("loss_critic"));
  EXPECT_EQ(last.at("val_loss"), last.at("val_loss_critic"));
  EXPECT_NE(last.at("loss_generator"), last.at("loss_critic"));
  EXPECT_EQ(last.at("lr_critic"), 0.02);
  EXPECT_EQ(last.at("lr_generator"), 0.1);
  for (const int replicas : {2, 3, 4}) {
    const FitResult together = train_gan(replicas, options, fit);
    EXPECT_EQ(together.weights, alone.weights) << replicas;
    EXPECT_EQ(together.history, alone.history) << replicas;
  }
}

TEST(Phases, AreResumedWithAllTheirOptimizers) {
  const TrainerOptions options{.batch_size = 16, .virtual_shards = 4};
  const FitResult straight = train_gan(2, options, {.epochs = 3});
  ScratchFolder folder;
  train_gan(3, options,
            {.epochs = 3,
             .max_steps = 4,
             .callbacks = {std::make_shared<ModelCheckpoint>(folder.path())}});
  const FitResult rest = train_gan(2, options, {.epochs = 3, .resume = folder.path()});
  EXPECT_EQ(rest.weights, straight.weights);
  EXPECT_EQ(rest.history.back(), straight.history.back());

  Context context = job_of(1);
  Gan net = make_gan();
  Trainer other(context.strategy(), net,
                {{"critic", phases_of(net)[0].optimizer, critic_loss},
                 {"forger", phases_of(net)[1].optimizer, generator_loss}},
                options);
  EXPECT_THAT(message_of<InvalidInput>([&] {
                other.fit(std::make_shared<Line>(), {.progress = false, .resume = folder.path()});
              }),
              AllOf(HasSubstr("critic, generator"), HasSubstr("critic, forger")));
  context.leave();
}

TEST(Phases, SchedulesKeepTheRatioOfTheirRates) {
  struct Note : Callback {
    void on_step_end(FitState& fit) override { rates.push_back(fit.learning_rate().of(1)); }
    std::vector<double> rates;
  };
  auto note = std::make_shared<Note>();
  const FitResult result =
      train_gan(2, {.batch_size = 22},
                {.epochs = 2, .callbacks = {std::make_shared<StepDecay>(1, 0.5), note}});
  EXPECT_THAT(note->rates, ::testing::ElementsAre(0.1, 0.05, 0.05, 0.025));
  EXPECT_EQ(result.history[1].at("lr_critic"), 0.005);
}

// A parameter of the teacher is in no optimizer; its batch norm stays as it is in eval mode.
TEST(Phases, ATeacherTeachesAStudent) {
  struct Pair : torch::nn::Cloneable<Pair> {
    Pair() { reset(); }
    void reset() override {
      teacher = register_module("teacher", torch::nn::Linear(2, 3));
      student = register_module("student", torch::nn::Linear(2, 3));
    }
    torch::nn::Linear teacher{nullptr}, student{nullptr};
  };
  std::string alone;
  for (const int replicas : {1, 3}) {
    Context context = job_of(replicas);
    torch::manual_seed(4);
    const auto pair = std::make_shared<Pair>();
    const torch::Tensor before = pair->teacher->weight.detach().clone();
    for (torch::Tensor& parameter : pair->teacher->parameters()) parameter.set_requires_grad(false);
    Trainer trainer(context.strategy(), pair,
                    std::make_shared<torch::optim::SGD>(pair->student->parameters(), 0.5),
                    [](Pair& net, const Points& batch) {
                      return torch::mse_loss(net.student(batch.real), net.teacher(batch.real));
                    },
                    {.batch_size = 12, .virtual_shards = 3});
    const FitResult result =
        trainer.fit(std::make_shared<Line>(), {.epochs = 4, .progress = false});
    EXPECT_LT(result.history.back().at("loss"), 0.5 * result.history.front().at("loss"));
    EXPECT_TRUE(torch::equal(pair->teacher->weight, before));
    if (replicas == 1) alone = result.weights;
    EXPECT_EQ(result.weights, alone);
    context.leave();
  }
}

TEST(Phases, AreRefusedWhereTheyDoNotFit) {
  Context context = job_of(1);
  Gan net = make_gan(), other = make_gan();
  const auto refusal = [&](std::vector<Phase> phases, TrainerOptions options = {}) {
    return message_of<InvalidInput>(
        [&] { Trainer(context.strategy(), net, std::move(phases), options); });
  };
  const std::vector<Phase> good = phases_of(net);
  EXPECT_THAT(refusal({}), HasSubstr("there are no phases"));
  EXPECT_THAT(refusal({good[0], good[0]}), HasSubstr("two phases are called 'critic'"));
  EXPECT_THAT(refusal({good[0], {"", good[1].optimizer, generator_loss}}),
              HasSubstr("a phase is called ''"));
  EXPECT_THAT(refusal({good[0], {"a.b", good[1].optimizer, generator_loss}}),
              HasSubstr("a phase is called 'a.b'"));
  EXPECT_THAT(refusal({good[0], {"b", nullptr, generator_loss}}),
              HasSubstr("there is no optimizer in phase 'b'"));
  EXPECT_THAT(refusal({good[0], {"b", good[1].optimizer, {}}}),
              HasSubstr("there is no training step in phase 'b'"));
  EXPECT_THAT(refusal({good[0], phases_of(other)[1]}),
              HasSubstr("6 of the optimizer's 6 parameters of phase 'generator' are not of the "
                        "model"));
  Metric metric = accuracy();
  metric.name = "loss_critic";
  EXPECT_THAT(refusal(good, {.metrics = {metric}}),
              HasSubstr("metric 'loss_critic' has a name that the Trainer uses itself"));
  context.leave();
}

TEST(Phases, DoNotGoWithAnElasticJob) {
  elastic::testing::ElasticWorkers workers(1, 1);
  workers.start(
      0,
      [](Context& context) {
        Gan net = make_gan();
        Trainer trainer(context.strategy(), net, phases_of(net), {.batch_size = 8});
        EXPECT_THAT(message_of<InvalidInput>(
                        [&] { trainer.fit(std::make_shared<Line>(), {.progress = false}); }),
                    HasSubstr("2 phases do not go with an elastic job"));
      },
      {}, 0);
  workers.wait();
}

}  // namespace
}  // namespace cohort::train

// Models and batches of any shape, and means over anything: training steps.
#include "cohort/train/model/training_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <tuple>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/membership/ledger/ledger.h"
#include "cohort/train/elastic/elastic_workers_test.h"
#include "cohort/train/metrics/classification.h"
#include "cohort/train/plain_net_test.h"
#include "cohort/train/ragged_fixture_test.h"

namespace cohort::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;

struct Tagged {
  FitResult fit;
  Logs evaluation;
  std::vector<torch::Tensor> parameters;
};

// Trains a tagger from the same start with so many replicas.
Tagged tag(int replicas, TrainerOptions options, FitOptions fit = {}, TrainingStep step = tag_loss,
           double dropout = 0.2, SourcePtr data = sentences(50)) {
  Context context = job_of(replicas);
  Tagger net = make_tagger(dropout);
  fit.progress = false;
  auto rule = std::make_shared<torch::optim::SGD>(net->parameters(),
                                                  torch::optim::SGDOptions(0.3).momentum(0.9));
  Trainer trainer(context.strategy(), net, rule, std::move(step), options);
  Tagged outcome;
  outcome.fit = trainer.fit(data, fit);
  outcome.evaluation = trainer.evaluate(sentences(31), 4);
  outcome.parameters = net->parameters();
  context.leave();
  return outcome;
}

TEST(TrainingStep, ARaggedLossGivesTheSameBitsForAnyNumberOfReplicas) {
  const TrainerOptions options{.batch_size = 16, .virtual_shards = 12, .accumulate = 2};
  const FitOptions fit{.epochs = 2, .validation = sentences(31), .validation_batch_size = 4};
  const Tagged alone = tag(1, options, fit);
  EXPECT_LT(alone.fit.history[1].at("loss"), alone.fit.history[0].at("loss"));
  for (const int replicas : {2, 3, 4}) {
    const Tagged together = tag(replicas, options, fit);
    EXPECT_EQ(together.fit.weights, alone.fit.weights) << replicas;
    EXPECT_EQ(together.fit.history, alone.fit.history) << replicas;
    EXPECT_EQ(together.evaluation, alone.evaluation) << replicas;
  }
}

// Every batch at once, as LibTorch alone does it.
TEST(TrainingStep, ARaggedLossIsTheMeanOverTheWholeBatchsTokens) {
  Tagger net = make_tagger(0);
  torch::optim::SGD rule(net->parameters(), torch::optim::SGDOptions(0.3).momentum(0.9));
  const Sentences all = Corpus(50).all();
  double loss = 0, tokens = 0;
  for (std::int64_t first = 0; first < 50; first += 16) {
    const Sentences batch{all.ids.slice(0, first, first + 16),
                          all.labels.slice(0, first, first + 16)};
    rule.zero_grad();
    const Loss mine = tag_loss(net, batch);
    mine.mean.backward();
    rule.step();
    loss += mine.mean.item<double>() * mine.weight.number().value();
    tokens += mine.weight.number().value();
  }
  const Tagged trained = tag(3, {.batch_size = 16, .virtual_shards = 7, .accumulate = 3},
                             {.shuffle = false}, tag_loss, 0);
  const auto expected = net->parameters();
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(torch::allclose(trained.parameters[i], expected[i], 1e-4, 1e-6)) << i;
  EXPECT_NEAR(trained.fit.history[0].at("loss"), loss / tokens, 1e-5);
}

TEST(TrainingStep, MicroBatchesWeighByTheirTokens) {
  const FitOptions fit{.shuffle = false};
  const Tagged whole = tag(1, {.batch_size = 16}, fit, tag_loss, 0);
  const Tagged parts = tag(1, {.batch_size = 16, .accumulate = 5}, fit, tag_loss, 0);
  for (std::size_t i = 0; i < whole.parameters.size(); ++i)
    EXPECT_TRUE(torch::allclose(whole.parameters[i], parts.parameters[i], 1e-4, 1e-6));
  EXPECT_NEAR(whole.fit.history[0].at("loss"), parts.fit.history[0].at("loss"), 1e-5);
}

// Not one tensor is changed by a step that broke off, and its ledger counts samples, not tokens.
TEST(TrainingStep, ARaggedLossKeepsItsBitsWhenAnElasticWorkerIsLost) {
  const TrainerOptions options{.batch_size = 16, .virtual_shards = 4};
  const auto train = [&](Context& context, FitOptions fit) {
    // Workers that are threads share one generator: values are drawn in turn, and no dropout.
    static std::mutex making;
    std::unique_lock lock(making);
    Tagger net = make_tagger(0);
    lock.unlock();
    fit.epochs = 2;
    fit.progress = false;
    Trainer trainer(context.strategy(), net,
                    std::make_shared<torch::optim::Adam>(net->parameters(), 0.01), tag_loss,
                    options);
    return trainer.fit(sentences(50), fit);
  };
  struct Dies : Callback {
    void on_step_end(FitState& fit) override {
      if (fit.step == 3) throw elastic::testing::Killed();
    }
  };
  elastic::testing::ElasticWorkers job(3, 4);
  FitResult survivor;
  job.start(0, [&](Context& context) { survivor = train(context, {}); });
  job.start(1, [&](Context& context) { train(context, {}); });
  job.start(2,
            [&](Context& context) { train(context, {.callbacks = {std::make_shared<Dies>()}}); });
  for (const auto& [name, ending] : job.wait())
    EXPECT_TRUE(ending.empty() || ending == "killed") << name << ": " << ending;
  Context alone = job_of(1);
  const FitResult expected = train(alone, {});
  EXPECT_EQ(survivor.weights, expected.weights);
  EXPECT_EQ(survivor.history, expected.history);
  const auto report = membership::verify(membership::read_ledger(job.folder() / "ledger"));
  EXPECT_THAT(report.problems, ::testing::IsEmpty());
}

TEST(TrainingStep, TheWeightOfAllSamplesIsThatOfNone) {
  const TrainingStep weighted = [](SmallNetImpl& net, const Batch& batch) {
    torch::Tensor output = net.forward(batch.data);
    return Loss{.mean = cross_entropy(output, batch.target),
                .weight = batch.size(),
                .output = output,
                .target = batch.target};
  };
  std::vector<std::string> weights;
  for (const TrainingStep& step : {weighted, TrainingStep(cross_entropy)}) {
    Context context = job_of(2);
    torch::manual_seed(3);
    SmallNet net;
    Trainer trainer(context.strategy(), net, sgd(net), step,
                    {.batch_size = 16, .virtual_shards = 4, .metrics = {accuracy()}});
    weights.push_back(trainer.fit(small_images(40), {.progress = false}).weights);
    context.leave();
  }
  EXPECT_EQ(weights[0], weights[1]);
}

TEST(TrainingStep, AStepWithoutWeightUpdatesNothing) {
  const auto padding = std::make_shared<Corpus>(20, true);
  // A mean over nothing that is no number, as a program may compute it.
  const TrainingStep careless = [](Tagger& net, const Sentences& batch) {
    const auto [logits, mask] = net->forward(batch.ids, batch.labels);
    return Loss{.mean = (logits.logsumexp(-1) * mask).sum() / mask.sum(), .weight = mask.sum()};
  };
  for (const TrainingStep& step : {TrainingStep(tag_loss), careless}) {
    const Tagged outcome = tag(2, {.batch_size = 8}, {}, step, 0.2, padding);
    EXPECT_EQ(outcome.fit.history[0].at("loss"), 0);
    const auto before = make_tagger()->parameters();
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(torch::equal(outcome.parameters[i], before[i]));
  }
}

TEST(TrainingStep, BatchesMayBeMapsTuplesAndTensors) {
  using Named = std::map<std::string, torch::Tensor>;
  using Triple = std::tuple<torch::Tensor, torch::Tensor, int>;
  struct Maps : DatasetOf<Named> {
    std::int64_t size() const override { return 12; }
    Named get(std::span<const std::int64_t> indices, const DrawKey&) const override {
      const auto n = static_cast<std::int64_t>(indices.size());
      return {{"x", torch::ones({n, 4})}, {"y", torch::zeros({n, 1})}};
    }
  };
  struct Triples : DatasetOf<Triple> {
    std::int64_t size() const override { return 12; }
    Triple get(std::span<const std::int64_t> indices, const DrawKey&) const override {
      const auto n = static_cast<std::int64_t>(indices.size());
      return {torch::ones({n, 4}), torch::zeros({n, 1}), 1};
    }
  };
  struct Tensors : DatasetOf<torch::Tensor> {
    std::int64_t size() const override { return 12; }
    torch::Tensor get(std::span<const std::int64_t> indices, const DrawKey&) const override {
      return torch::ones({static_cast<std::int64_t>(indices.size()), 4});
    }
  };
  const auto weights = [](TrainingStep step, SourcePtr data) {
    Context context = job_of(2);
    torch::manual_seed(3);
    torch::nn::Linear net(4, 1);
    auto rule = std::make_shared<torch::optim::SGD>(net->parameters(), 0.1);
    Trainer trainer(context.strategy(), net, rule, std::move(step), {.batch_size = 4});
    const std::string result = trainer.fit(std::move(data), {.progress = false}).weights;
    context.leave();
    return result;
  };
  const std::string of_maps =
      weights([](torch::nn::Linear& net,
                 const Named& batch) { return torch::mse_loss(net(batch.at("x")), batch.at("y")); },
              std::make_shared<Maps>());
  const std::string of_triples = weights(
      [](torch::nn::LinearImpl& net, Triple batch) {
        return torch::mse_loss(net.forward(std::get<0>(batch)), std::get<1>(batch));
      },
      std::make_shared<Triples>());
  const std::string of_tensors =
      weights([](torch::nn::Linear net, const torch::Tensor& x) { return net(x).square().mean(); },
              std::make_shared<Tensors>());
  EXPECT_EQ(of_maps, of_triples);
  EXPECT_EQ(of_maps, of_tensors);
}

TEST(TrainingStep, AnEvaluationMayHaveAStepOfItsOwn) {
  TrainerOptions options{.batch_size = 16, .virtual_shards = 4};
  options.evaluation_step = [](Tagger& net, const Sentences& batch) {
    EXPECT_FALSE(net->is_training());
    EXPECT_FALSE(torch::GradMode::is_enabled());
    return Loss{.mean = torch::rand({}) + 1, .weight = batch.ids.size(0)};  // draws numbers
  };
  const Tagged alone = tag(1, options, {.validation = sentences(20), .validation_batch_size = 3});
  EXPECT_GT(alone.fit.history[0].at("val_loss"), 1);
  EXPECT_EQ(tag(3, options, {.validation = sentences(20), .validation_batch_size = 3}).fit.history,
            alone.fit.history);
}

std::string refusal_of(TrainingStep step, SourcePtr data = sentences(20),
                       TrainerOptions options = {.batch_size = 8}) {
  return message_of<InvalidInput>(
      [&] { tag(1, options, {}, std::move(step), 0.2, std::move(data)); });
}

TEST(TrainingStep, WhatItGivesIsLookedAt) {
  EXPECT_THAT(refusal_of([](Tagger& net, const Sentences& batch) {
                return net->embedding(batch.ids).sum(2).sum(0).slice(0, 0, 3);
              }),
              HasSubstr("the loss is a tensor of shape [3], not one number"));
  EXPECT_THAT(refusal_of([](Tagger&, const Sentences&) { return Loss{}; }),
              HasSubstr("the training step gave no loss"));
  EXPECT_THAT(refusal_of([](Tagger& net, const Sentences& batch) {
                return net->embedding(batch.ids).detach().mean();
              }),
              HasSubstr("the loss does not depend on any parameter that is trained"));
  EXPECT_THAT(refusal_of([](Tagger& net, const Sentences& batch) {
                return Loss{.mean = net->embedding(batch.ids).mean(), .weight = -2};
              }),
              HasSubstr("the weight of a loss is -2"));
  EXPECT_THAT(refusal_of(
                  [](Tagger& net, const Sentences& batch) {
                    return Loss{.mean = net->embedding(batch.ids).mean()};
                  },
                  sentences(20), {.batch_size = 8, .metrics = {accuracy()}}),
              AllOf(HasSubstr("metric 'accuracy' measures the output and the target"),
                    HasSubstr("Loss::output")));
}

TEST(TrainingStep, BatchAndModelMustBeTheStepsOwn) {
  EXPECT_THAT(refusal_of(tag_loss, small_images(20)),
              AllOf(HasSubstr("gives batches of type cohort::train::Batch"), HasSubstr("Sentences"),
                    HasSubstr("DatasetOf")));
  EXPECT_THAT(refusal_of([](SmallNet& net, const Sentences& batch) {
                return net->forward(batch.ids).mean();
              }),
              AllOf(HasSubstr("the training step takes a"), HasSubstr("SmallNetImpl"),
                    HasSubstr("TaggerImpl")));
  EXPECT_THAT(refusal_of(cross_entropy, small_images(20)),
              AllOf(HasSubstr("has no forward() from one tensor to one tensor"),
                    HasSubstr("training step")));
}

TEST(TrainingStep, WhatIsInNoOptimizerStaysAsItIsAndNeedsNoGradient) {
  for (const int replicas : {1, 2}) {
    Context context = job_of(replicas);
    Tagger net = make_tagger();
    const torch::Tensor before = net->embedding->weight.detach().clone();
    auto rule = std::make_shared<torch::optim::SGD>(net->head->parameters(), 0.1);
    Trainer trainer(context.strategy(), net, rule, tag_loss, {.batch_size = 10});
    trainer.fit(sentences(20), {.progress = false});
    EXPECT_TRUE(torch::equal(net->embedding->weight, before));
    EXPECT_TRUE(net->embedding->weight.requires_grad());
    EXPECT_FALSE(net->embedding->weight.grad().defined());
    context.leave();
  }
}

TEST(TrainingStep, PredictsAnyBatchByAFunction) {
  torch::Tensor alone;
  for (const int replicas : {1, 3}) {
    Context context = job_of(replicas);
    Tagger net = make_tagger();
    auto rule = std::make_shared<torch::optim::SGD>(net->parameters(), 0.1);
    Trainer trainer(context.strategy(), net, rule, tag_loss, {.batch_size = 12});
    const auto classes = [](Tagger& tagger, const Sentences& batch) {
      return tagger->forward(batch.ids, batch.labels).first.argmax(-1);
    };
    const torch::Tensor outputs = trainer.predict(sentences(23), classes, 4);
    EXPECT_EQ(outputs.sizes(), (std::vector<std::int64_t>{23, 7}));
    if (replicas == 1) alone = outputs;
    EXPECT_TRUE(torch::equal(outputs, alone));
    const auto one = [](Tagger& tagger, const Sentences& batch) {
      return tagger->embedding(batch.ids).sum();
    };
    if (replicas == 1) {
      EXPECT_THAT(message_of<InvalidInput>([&] { trainer.predict(sentences(23), one, 4); }),
                  HasSubstr("predict() gave a tensor of shape [] for 4 samples"));
    }
    context.leave();
  }
}

}  // namespace
}  // namespace cohort::train

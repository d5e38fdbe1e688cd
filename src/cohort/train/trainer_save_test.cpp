// A Trainer without fit(): save(), load(), evaluate(), predict(); and optimizers with groups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/parallel/strategies/worker_threads_test.h"
#include "cohort/train/callbacks/early_stopping.h"
#include "cohort/train/callbacks/learning_rate_schedules.h"
#include "cohort/train/callbacks/model_checkpoint.h"
#include "cohort/train/checkpoint/checkpoint.h"
#include "cohort/train/checkpoint/module_state.h"
#include "cohort/train/plain_net_test.h"
#include "cohort/train/ragged_fixture_test.h"

namespace cohort::train {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using namespace testing;

const TrainerOptions kTagging{.batch_size = 8, .virtual_shards = 6};

// A Trainer of a tagger, and the job that it is in.
struct TaggerJob {
  explicit TaggerJob(int replicas, TrainerOptions options = kTagging)
      : context(job_of(replicas)),
        net(make_tagger()),
        trainer(context.strategy(), net,
                std::make_shared<torch::optim::Adam>(net->parameters(),
                                                     torch::optim::AdamOptions(0.02)),
                tag_loss, options) {}
  FitResult fit(FitOptions options) {
    options.progress = false;
    return trainer.fit(sentences(44), options);
  }

  Context context;
  Tagger net;
  Trainer trainer;
};

TEST(TrainerSave, GoesOnFromALoadedCheckpointWithAnotherNumberOfReplicas) {
  ScratchFolder folder;
  TaggerJob straight(2);
  const FitResult whole = straight.fit({.epochs = 2});

  TaggerJob half(3);
  half.fit({.epochs = 2, .max_steps = 8});
  const Logs before = half.trainer.evaluate(sentences(20), 4);
  const auto file = half.trainer.save(folder.path() / "saved");
  EXPECT_EQ(load_checkpoint(file).state.step, 8);

  for (const auto& path : {file, folder.path() / "saved"}) {
    TaggerJob rest(2);
    rest.trainer.load(path);
    EXPECT_EQ(rest.trainer.evaluate(sentences(20), 4), before);
    const FitResult result = rest.fit({.epochs = 2});
    EXPECT_EQ(result.step, whole.step);
    EXPECT_EQ(result.weights, whole.weights);
    EXPECT_EQ(result.history.back(), whole.history.back());
  }
  TaggerJob resumed(1);
  EXPECT_EQ(resumed.fit({.epochs = 2, .resume = file.string()}).weights, whole.weights);
}

TEST(TrainerSave, TakesTheShardsOfTheCheckpoint) {
  ScratchFolder folder;
  TaggerJob four(4, {.batch_size = 8});
  four.fit({.max_steps = 2});
  four.trainer.save(folder.path());
  TaggerJob one(1, {.batch_size = 8});
  one.trainer.load(folder.path());
  TaggerJob straight(4, {.batch_size = 8});
  EXPECT_EQ(one.fit({}).weights, straight.fit({}).weights);
}

TEST(TrainerSave, KeepsTheStatesOfCallbacks) {
  ScratchFolder folder;
  struct Counter : Callback {
    void on_step_end(FitState&) override { ++steps; }
    std::string state_name() const override { return "counter"; }
    nlohmann::json save_state() const override { return steps; }
    void load_state(const nlohmann::json& state) override { steps = state.get<int>(); }
    int steps = 0;
  };
  TaggerJob first(1);
  first.fit({.max_steps = 4, .callbacks = {std::make_shared<Counter>()}});
  first.trainer.save(folder.path());
  TaggerJob second(1);
  second.trainer.load(folder.path());
  auto counter = std::make_shared<Counter>();
  second.fit({.max_steps = 5, .callbacks = {counter}});
  EXPECT_EQ(counter->steps, 5);
}

TEST(TrainerSave, RefusesWhatIsNotThereOrDoesNotFit) {
  ScratchFolder folder;
  TaggerJob job(1);
  EXPECT_THAT(message_of<InvalidInput>([&] { job.trainer.load(folder.path()); }),
              HasSubstr("there is no checkpoint in"));
  job.trainer.save(folder.path());  // before any step
  TaggerJob other(1, {.batch_size = 9, .virtual_shards = 6});
  EXPECT_THAT(message_of<InvalidInput>([&] { other.trainer.load(folder.path()); }),
              HasSubstr("batch_size 8, this training has 9"));
}

// Each worker has drawn other starting values: worker 0's are used.
TEST(TrainerSave, EvaluatesWithoutFitByTheValuesOfTheFirstWorker) {
  std::array<Logs, 2> logs;
  std::array<std::string, 2> weights;
  const auto texts = parallel::WorkerThreads().run(2, {}, [&](Context& context) {
    PlainNet net;
    const auto me = static_cast<std::size_t>(context.rank());
    {
      const torch::NoGradGuard no_gradients;
      for (torch::Tensor& parameter : net->parameters())
        parameter.fill_(0.1 * (context.rank() + 1));
    }
    Trainer trainer(context.strategy(), net,
                    std::make_shared<torch::optim::SGD>(net->parameters(), 0.1), cross_entropy,
                    {.batch_size = 8});
    logs[me] = trainer.evaluate(small_images(24, false));
    weights[me] = trainer.weights();
  });
  EXPECT_THAT(texts, Each(""));
  EXPECT_EQ(logs[0], logs[1]);
  EXPECT_EQ(weights[0], weights[1]);
}

// Per-layer rates: a group each, one of which stands still.
FitResult train_groups(int replicas, FitOptions fit, Tagger net = make_tagger(0)) {
  using torch::optim::AdamWOptions;
  using torch::optim::OptimizerParamGroup;
  const auto group = [](const torch::nn::Module& layer, double rate, double decay) {
    OptimizerParamGroup made(layer.parameters());
    made.set_options(std::make_unique<AdamWOptions>(AdamWOptions(rate).weight_decay(decay)));
    return made;
  };
  Context context = job_of(replicas);
  auto rule = std::make_shared<torch::optim::AdamW>(
      std::vector<OptimizerParamGroup>{group(*net->embedding, 0.002, 0),
                                       group(*net->head, 0.02, 0.5)},
      AdamWOptions(0.02));
  fit.progress = false;
  Trainer trainer(context.strategy(), net, rule, tag_loss, kTagging);
  FitResult result = trainer.fit(sentences(44), fit);
  const auto rate = [&](std::size_t i) { return rule->param_groups()[i].options().get_lr(); };
  EXPECT_DOUBLE_EQ(rate(1), 10 * rate(0));
  context.leave();
  return result;
}

TEST(ParameterGroups, KeepTheirRatiosAndDecayThroughSchedulesAndCheckpoints) {
  const auto callbacks = [](std::vector<std::shared_ptr<Callback>> more = {}) {
    more.push_back(std::make_shared<StepDecay>(1, 0.5));
    return more;
  };
  const FitResult straight = train_groups(2, {.epochs = 3, .callbacks = callbacks()});
  EXPECT_DOUBLE_EQ(straight.history.back().at("lr"), 0.002 * 0.125);
  ScratchFolder folder;
  train_groups(3, {.epochs = 3,
                   .max_steps = 8,
                   .callbacks = callbacks({std::make_shared<ModelCheckpoint>(folder.path())})});
  const FitResult rest =
      train_groups(1, {.epochs = 3, .callbacks = callbacks(), .resume = folder.path()});
  EXPECT_EQ(rest.weights, straight.weights);
  EXPECT_EQ(rest.history.back(), straight.history.back());
}

TEST(ParameterGroups, DoWhatLibTorchDoesWithThem) {
  Tagger by_hand = make_tagger(0), trained = make_tagger(0);
  const auto rule_of = [](Tagger& net) {
    std::vector<torch::optim::OptimizerParamGroup> groups;
    for (const auto& [layer, rate] :
         {std::pair<torch::nn::Module*, double>{net->embedding.get(), 0.0}, {net->head.get(), 0.3}})
      groups.emplace_back(layer->parameters(),
                          std::make_unique<torch::optim::SGDOptions>(
                              torch::optim::SGDOptions(rate).weight_decay(rate / 3)));
    return std::make_shared<torch::optim::SGD>(groups, torch::optim::SGDOptions(0.3));
  };
  const auto rule = rule_of(by_hand);
  const Sentences all = Corpus(44).all();
  for (std::int64_t first = 0; first < 44; first += 8) {
    rule->zero_grad();
    const Sentences batch{all.ids.slice(0, first, std::min<std::int64_t>(44, first + 8)),
                          all.labels.slice(0, first, std::min<std::int64_t>(44, first + 8))};
    tag_loss(by_hand, batch).mean.backward();
    rule->step();
  }
  Context context = job_of(1);
  Trainer trainer(context.strategy(), trained, rule_of(trained), tag_loss, {.batch_size = 8});
  trainer.fit(sentences(44), {.shuffle = false, .progress = false});
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(torch::allclose(trained->parameters()[i], by_hand->parameters()[i], 1e-4, 1e-6));
  EXPECT_TRUE(torch::equal(trained->embedding->weight, make_tagger(0)->embedding->weight));
  context.leave();
}

}  // namespace
}  // namespace cohort::train

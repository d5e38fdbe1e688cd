// Training whose workers divide the optimizer's state among themselves.
#include "cohort/train/sync/sharded_update.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdio>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/sanitized_test.h"
#include "cohort/parallel/activations/checkpoint_activations.h"
#include "cohort/train/callbacks/model_checkpoint.h"
#include "cohort/train/checkpoint/checkpoint.h"
#include "cohort/train/checkpoint/module_state.h"
#include "cohort/train/training_fixture_test.h"

namespace cohort::train {
namespace {

using ::testing::HasSubstr;
using namespace testing;
using parallel::Shard;

// Parameters that are cut, with a rest at their end that is no whole vector, and ones that are not.
struct WideNetImpl : torch::nn::Cloneable<WideNetImpl> {
  WideNetImpl() { reset(); }
  void reset() override {
    first = register_module("first", torch::nn::Linear(64, 301));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({301})));
    dropout = register_module("dropout", torch::nn::Dropout(0.2));
    second = register_module("second", torch::nn::Linear(301, 211));
    head = register_module("head", torch::nn::Linear(211, 3));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    auto y = torch::relu(norm(first(x.flatten(1))));
    return head(torch::relu(second(dropout(y))));
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, head{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(WideNet);

using MakeAny = std::function<std::shared_ptr<torch::optim::Optimizer>(WideNet&)>;

// Matrices decay, vectors do not: two groups.
template <typename Optimizer, typename Options>
MakeAny with_groups(Options options) {
  return [options](WideNet& net) -> std::shared_ptr<torch::optim::Optimizer> {
    std::vector<torch::Tensor> matrices, vectors;
    for (const auto& parameter : net->parameters())
      (parameter.dim() > 1 ? matrices : vectors).push_back(parameter);
    Options decaying = options;
    decaying.weight_decay(0.01);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(matrices, std::make_unique<Options>(decaying));
    groups.emplace_back(vectors, std::make_unique<Options>(options));
    return std::make_shared<Optimizer>(groups, options);
  };
}

MakeAny adam() {
  return with_groups<torch::optim::Adam>(torch::optim::AdamOptions(2e-3).amsgrad(true));
}

struct Trained {
  FitResult fit;
  bool optimizer_is_empty = false;
};

Trained train_wide(int replicas, Shard shard, const MakeAny& make, FitOptions fit = {},
                   TrainerOptions options = {}) {
  auto context = job_of(replicas);
  torch::manual_seed(5);
  WideNet net;
  auto optimizer = make(net);
  options.batch_size = 16;
  options.virtual_shards = 4;
  options.shard = shard;
  fit.progress = false;
  Trainer trainer(context.strategy(), net, optimizer, cross_entropy, options);
  Trained trained{trainer.fit(small_images(48), fit)};
  trained.optimizer_is_empty = optimizer->state().empty();
  context.leave();
  return trained;
}

TEST(Sharding, GivesTheBitsOfTheWholeUpdate) {
  const std::vector<std::pair<std::string, MakeAny>> optimizers{
      {"SGD",
       with_groups<torch::optim::SGD>(torch::optim::SGDOptions(0.05).momentum(0.9).nesterov(true))},
      {"Adam", adam()},
      {"AdamW", with_groups<torch::optim::AdamW>(torch::optim::AdamWOptions(2e-3))},
      {"RMSprop", with_groups<torch::optim::RMSprop>(
                      torch::optim::RMSpropOptions(1e-3).momentum(0.5).centered(true))},
      {"Adagrad",
       with_groups<torch::optim::Adagrad>(
           torch::optim::AdagradOptions(0.01).lr_decay(0.1).initial_accumulator_value(0.1))}};
  for (const auto& [name, make] : optimizers) {
    const auto whole = train_wide(1, Shard::none, make, {.epochs = 2});
    for (const Shard shard : {Shard::optimizer, Shard::gradients, Shard::parameters})
      for (const int replicas : {1, 2, 3, 4}) {
        const auto divided = train_wide(replicas, shard, make, {.epochs = 2});
        EXPECT_EQ(divided.fit.weights, whole.fit.weights)
            << name << ", " << replicas << ", " << to_string(shard);
        EXPECT_EQ(divided.optimizer_is_empty, replicas > 1) << name;
      }
  }
}

TEST(Sharding, KeepsTheBitsWithClippingAccumulationAndASchedule) {
  TrainerOptions options{.accumulate = 2, .clip_norm = 0.5, .log_gradient_norm = true};
  const auto whole = train_wide(1, Shard::none, adam(), {.epochs = 2}, options);
  for (const Shard shard : {Shard::optimizer, Shard::gradients, Shard::parameters})
    for (const int replicas : {1, 3}) {
      const auto divided = train_wide(replicas, shard, adam(), {.epochs = 2}, options);
      EXPECT_EQ(divided.fit.weights, whole.fit.weights);
      EXPECT_EQ(divided.fit.history, whole.fit.history);
    }
}

TEST(Sharding, ACheckpointIsThatOfAnUnshardedTrainingAndResumesAnywhere) {
  const auto whole = train_wide(1, Shard::none, adam(), {.epochs = 3});
  ScratchFolder plain, divided;
  const auto saving = [](const ScratchFolder& folder) {
    return FitOptions{.epochs = 3,
                      .max_steps = 4,
                      .callbacks = {std::make_shared<ModelCheckpoint>(
                          folder.path().string(), ModelCheckpointOptions{.every_steps = 4})}};
  };
  train_wide(2, Shard::none, adam(), saving(plain));
  const auto one = load_latest(plain.path());
  for (const Shard shard : {Shard::gradients, Shard::parameters, Shard::optimizer}) {
    train_wide(3, shard, adam(), saving(divided));
    const auto other = load_latest(divided.path());
    ASSERT_TRUE(one && other);
    EXPECT_EQ(fingerprint(one->tensors), fingerprint(other->tensors)) << to_string(shard);
    EXPECT_EQ(one->state.optimizers, other->state.optimizers);
  }
  for (const auto& [replicas, shard] : {std::pair{1, Shard::none},
                                        {2, Shard::optimizer},
                                        {4, Shard::gradients},
                                        {2, Shard::parameters}}) {
    const auto resumed =
        train_wide(replicas, shard, adam(), {.epochs = 3, .resume = divided.path().string()});
    EXPECT_EQ(resumed.fit.weights, whole.fit.weights) << replicas;
  }
}

// One table that is used first and last, layers that are computed again in backward, validation, and
// more shards than workers.
struct TiedNetImpl : torch::nn::Cloneable<TiedNetImpl> {
  TiedNetImpl() { reset(); }
  void reset() override {
    table = register_module("table", torch::nn::Embedding(300, 96));
    layers = register_module("layers", torch::nn::ModuleList());
    for (int i = 0; i < 4; ++i) layers->push_back(torch::nn::Linear(96, 96 * 2));
    gain = register_parameter("gain", torch::ones({300, 64}));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    auto y = table((x.flatten(1).slice(1, 0, 4) * 200).to(torch::kLong)).sum(1);
    for (const auto& layer : *layers)
      y = parallel::checkpoint_activations(
          [layer](const torch::Tensor& in) {
            const auto halves = layer->as<torch::nn::Linear>()->forward(in).chunk(2, 1);
            return in + halves[0] * torch::dropout(torch::sigmoid(halves[1]), 0.1, true);
          },
          y);
    return (y.matmul(table->weight.t()) * gain.sum(1)).slice(1, 0, 3);
  }
  torch::nn::Embedding table{nullptr};
  torch::nn::ModuleList layers{nullptr};
  torch::Tensor gain;
};
TORCH_MODULE(TiedNet);

struct WholeBytes : Callback {
  explicit WholeBytes(TiedNet given) : net(std::move(given)) {}
  void on_step_end(FitState&) override {
    std::size_t bytes = 0;
    for (const auto& parameter : net->parameters())
      if (parameter.storage().data() != nullptr) bytes += parameter.nbytes();
    most = std::max(most, bytes);
  }
  TiedNet net;
  std::size_t most = 0;
};

TEST(Sharding, ParametersComeAndGoAsTheyAreUsed) {
  std::string whole;
  for (const auto& [replicas, shard] : {std::pair{1, Shard::none},
                                        {2, Shard::parameters},
                                        {3, Shard::parameters},
                                        {3, Shard::gradients}}) {
    auto context = job_of(replicas);
    torch::manual_seed(6);
    TiedNet net;
    auto bytes = std::make_shared<WholeBytes>(net);
    Trainer trainer(context.strategy(), net,
                    std::make_shared<torch::optim::Adam>(net->parameters(), 1e-2), cross_entropy,
                    {.batch_size = 16, .virtual_shards = 4, .shard = shard});
    const auto data = small_images(48, false);
    const FitResult fit = trainer.fit(
        data, {.epochs = 2, .validation = data, .callbacks = {bytes}, .progress = false});
    if (whole.empty()) whole = fit.weights;
    EXPECT_EQ(fit.weights, whole) << replicas << " " << to_string(shard);
    if (shard == Shard::parameters) {
      EXPECT_EQ(bytes->most, 4 * 192 * sizeof(float));  // biases
    }
    EXPECT_EQ(trainer.weights(), whole);
    trainer.fit(data, {.epochs = 3, .progress = false});  // and on
    context.leave();
  }
}

struct DeepNetImpl : torch::nn::Cloneable<DeepNetImpl> {
  DeepNetImpl() { reset(); }
  void reset() override {
    layers = register_module("layers", torch::nn::ModuleList());
    layers->push_back(torch::nn::Linear(64, 512));
    for (int i = 0; i < 16; ++i) layers->push_back(torch::nn::Linear(512, 512));
    layers->push_back(torch::nn::Linear(512, 3));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = x.flatten(1);
    for (const auto& layer : *layers) x = torch::tanh(layer->as<torch::nn::Linear>()->forward(x));
    return x;
  }
  torch::nn::ModuleList layers{nullptr};
};
TORCH_MODULE(DeepNet);

// What malloc has given out: tensors, and the groups' memory where replicas are threads.
std::size_t live_bytes() {
  const auto info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

// At the last step but one: at the end others may have begun to gather their parameters.
struct LiveBytes : Callback {
  void on_step_end(FitState& fit) override {
    if (fit.step == 3) bytes = live_bytes();
  }
  std::size_t bytes = 0;
};

TEST(Sharding, MemoryOfAWorkerIsAsTheFormulaSays) {
  if (kSanitized) GTEST_SKIP() << "sanitizers have their own malloc";
  constexpr double kLayer = 512 * 512 * 4;  // bytes: what is whole for a moment
  struct Expected {
    Shard shard;
    int workers;
    double bytes_a_parameter, layers;
  };
  for (const auto& [shard, workers, expected, layers] :
       {Expected{Shard::none, 2, 16, 0}, Expected{Shard::optimizer, 2, 8 + 8.0 / 2, 0},
        Expected{Shard::gradients, 2, 4 + 12.0 / 2, 4}, Expected{Shard::gradients, 4, 4 + 3, 4},
        Expected{Shard::parameters, 2, 16.0 / 2, 4 + 3},
        Expected{Shard::parameters, 4, 4, 4 + 3}}) {
    auto context = job_of(workers);
    const auto data = small_images(4 * workers, false);
    const std::size_t before = live_bytes();
    DeepNet net;
    double parameters = 0;
    for (const auto& one : net->parameters()) parameters += static_cast<double>(one.numel());
    auto live = std::make_shared<LiveBytes>();
    {
      Trainer trainer(context.strategy(), net,
                      std::make_shared<torch::optim::Adam>(net->parameters()), cross_entropy,
                      {.batch_size = 4 * workers, .shard = shard});
      trainer.fit(data, {.epochs = 4, .callbacks = {live}, .progress = false});
    }
    const double measured = static_cast<double>(live->bytes - before) / workers / parameters;
    std::printf("%s, %d workers: %.2f bytes a parameter, %.2f by the formula\n",
                to_string(shard).c_str(), workers, measured, expected);
    EXPECT_GE(measured, 0.9 * expected) << to_string(shard);
    EXPECT_LE(measured, 1.1 * expected + layers * kLayer / parameters) << to_string(shard);
    context.leave();
  }
}

// A gradient that is infinite in f16 at first, in one row of one parameter: where gradients are
// divided, a single worker has it.
struct SteepNetImpl : torch::nn::Cloneable<SteepNetImpl> {
  SteepNetImpl() { reset(); }
  void reset() override {
    first =
        register_module("first", torch::nn::Linear(torch::nn::LinearOptions(64, 301).bias(false)));
    head = register_module("head", torch::nn::Linear(301, 3));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = first(x.flatten(1));
    if (y.requires_grad())
      y.register_hook([](torch::Tensor gradient) {
        gradient = gradient.clone();
        gradient.select(1, 300).mul_(3000);
        return gradient;
      });
    return head(y);
  }
  torch::nn::Linear first{nullptr}, head{nullptr};
};
TORCH_MODULE(SteepNet);

struct LastScale : Callback {
  void on_step_end(FitState& fit) override {
    if (fit.step == 1) first = fit.checkpoint().state.extra.at("loss_scale").get<double>();
    if (fit.step == 12) last = fit.checkpoint().state.extra.at("loss_scale").get<double>();
  }
  double first = 0, last = 0;
};

TEST(Sharding, LeavesOutAStepThatIsNotFiniteOnOneWorker) {
  std::string whole;
  for (const auto& [replicas, shard] : {std::pair{1, Shard::none},
                                        {2, Shard::none},
                                        {2, Shard::optimizer},
                                        {2, Shard::gradients},
                                        {3, Shard::gradients},
                                        {3, Shard::parameters}}) {
    auto context = job_of(replicas);
    torch::manual_seed(6);
    SteepNet net;
    auto scale = std::make_shared<LastScale>();
    Trainer trainer(
        context.strategy(), net, std::make_shared<torch::optim::Adam>(net->parameters(), 1e-2),
        cross_entropy,
        {.batch_size = 16, .virtual_shards = 4, .precision = Precision::f16, .shard = shard});
    const FitResult fit = trainer.fit(small_images(48, false),
                                      {.epochs = 4, .callbacks = {scale}, .progress = false});
    EXPECT_EQ(scale->first, 32768) << "the first step was applied";
    EXPECT_LT(scale->last, 32768);
    EXPECT_GT(scale->last, 16) << "no step was applied";
    if (whole.empty()) whole = fit.weights;
    EXPECT_EQ(fit.weights, whole) << replicas << " " << to_string(shard);
    context.leave();
  }
}

// Two halves with an optimizer each; the second one's loss goes through the first.
struct HalvesImpl : torch::nn::Cloneable<HalvesImpl> {
  HalvesImpl() { reset(); }
  void reset() override {
    using namespace torch::nn;  // NOLINT
    coder = register_module("coder", Sequential(Linear(64, 301), ReLU(), Linear(301, 64)));
    judge =
        register_module("judge", Sequential(Linear(64, 301), ReLU(), Dropout(0.2), Linear(301, 3)));
  }
  torch::nn::Sequential coder{nullptr}, judge{nullptr};
};
TORCH_MODULE(Halves);

TEST(Sharding, DividesEveryPhaseAndResumesIt) {
  const auto train = [](int replicas, Shard shard, FitOptions fit) {
    auto context = job_of(replicas);
    torch::manual_seed(6);
    Halves net;
    std::vector<Phase> phases{
        {"judge", std::make_shared<torch::optim::Adam>(net->judge->parameters(), 1e-2),
         [](Halves& halves, const Batch& batch) {
           const auto x = batch.data.flatten(1);
           return cross_entropy(halves->judge->forward(halves->coder->forward(x).detach()),
                                batch.target);
         }},
        {"coder",
         std::make_shared<torch::optim::SGD>(net->coder->parameters(),
                                             torch::optim::SGDOptions(0.05).momentum(0.9)),
         [](Halves& halves, const Batch& batch) {
           const auto x = batch.data.flatten(1);
           const auto code = halves->coder->forward(x);
           return cross_entropy(halves->judge->forward(code), batch.target) +
                  torch::mse_loss(code, x);
         }}};
    fit.progress = false;
    Trainer trainer(context.strategy(), net, std::move(phases),
                    {.batch_size = 16, .virtual_shards = 4, .clip_norm = 0.5, .shard = shard});
    const FitResult result = trainer.fit(small_images(48, false), fit);
    context.leave();
    return result;
  };
  const auto validation = small_images(12, false);
  const FitResult whole = train(1, Shard::none, {.epochs = 3, .validation = validation});
  for (const Shard shard : {Shard::optimizer, Shard::gradients, Shard::parameters}) {
    for (const int replicas : {2, 3}) {
      const FitResult divided = train(replicas, shard, {.epochs = 3, .validation = validation});
      EXPECT_EQ(divided.weights, whole.weights) << replicas << " " << to_string(shard);
      EXPECT_EQ(divided.history, whole.history) << replicas << " " << to_string(shard);
    }
    ScratchFolder folder;
    train(3, shard,
          {.epochs = 3,
           .max_steps = 4,
           .callbacks = {std::make_shared<ModelCheckpoint>(folder.path().string())}});
    EXPECT_EQ(train(2, shard, {.epochs = 3, .resume = folder.path().string()}).weights,
              whole.weights)
        << to_string(shard);
  }
}

TEST(Sharding, RefusesWhatItCannotDivideByName) {
  const MakeAny lbfgs = [](WideNet& net) {
    return std::make_shared<torch::optim::LBFGS>(net->parameters());
  };
  EXPECT_THAT(message_of<InvalidInput>([&] { train_wide(2, Shard::optimizer, lbfgs); }),
              HasSubstr("LBFGS"));
  EXPECT_THAT(message_of<InvalidInput>([&] {
                train_wide(2, Shard::gradients, adam(), {},
                           {.compression = parallel::Compression::bf16});
              }),
              HasSubstr("shard is gradients, but a compression"));
  EXPECT_THAT(message_of<InvalidInput>(
                  [&] { train_wide(2, Shard::parameters, adam(), {}, {.ema = {.decay = 0.9}}); }),
              HasSubstr("shard is parameters, but ema"));
}

}  // namespace
}  // namespace cohort::train

#include "cohort/parallel/tensors/broadcast_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/parallel/tensors/on_ranks_test.h"

namespace cohort::parallel {
namespace {

using collective::Group;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Optimizer = torch::optim::Optimizer;
using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(std::vector<torch::Tensor>)>;

// A model with parameters and buffers (batch norm), filled with `value`.
torch::nn::Sequential make_model(double value) {
  torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4),
                              torch::nn::Linear(4, 2));
  const torch::NoGradGuard no_grad;
  for (auto& tensor : model->parameters()) tensor.fill_(value);
  for (auto& tensor : model->buffers()) tensor.fill_(static_cast<int>(value));
  return model;
}

// A step whose gradients depend on the seed only.
void train_step(const std::vector<torch::Tensor>& parameters, Optimizer& optimizer, int seed) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& parameter = parameters[i];
    torch::Tensor(parameter).mutable_grad() = torch::arange(parameter.numel())
                                                  .reshape(parameter.sizes())
                                                  .to(torch::kFloat)
                                                  .add(seed + static_cast<int>(i))
                                                  .sin();
  }
  torch::AutoGradMode with_grad(true);
  optimizer.step();
}

TEST(BroadcastParameters, EveryRankHasTheRootsParametersAndBuffers) {
  for (const int root : {0, 2})
    on_ranks(3, [root](Group& group) {
      auto model = make_model(group.rank() + 1);
      broadcast_parameters(group, *model, root);
      for (const auto& tensor : model->parameters())
        EXPECT_TRUE(torch::all(tensor == root + 1).item<bool>());
      for (const auto& tensor : model->buffers())
        EXPECT_TRUE(torch::all(tensor == root + 1).item<bool>());
    });
}

TEST(BroadcastParameters, AModelLargerThanAMessageArrivesWhole) {
  on_ranks(2, [](Group& group) {
    NamedTensors tensors;
    for (int i = 0; i < 5; ++i)
      tensors.emplace_back(std::to_string(i), torch::full({3 << 20}, group.rank() * 10 + i,
                                                          i == 2 ? torch::kShort : torch::kInt));
    broadcast_parameters(group, tensors, 1);
    for (int i = 0; i < 5; ++i)
      EXPECT_TRUE(torch::all(tensors[i].second == 10 + i).item<bool>()) << i;
  });
}

TEST(BroadcastParameters, AnotherModelIsNamedOnEveryRankAndNothingChanges) {
  on_ranks(3, [](Group& group) {
    NamedTensors tensors = {
        {"weight", torch::full({2, group.rank() == 1 ? 4 : 3}, group.rank() * 1.0)}};
    EXPECT_THAT(message_of<InvalidInput>([&] { broadcast_parameters(group, tensors); }),
                AllOf(HasSubstr("rank 1 has weight Float [2, 4]"), HasSubstr("[2, 3]")));
    EXPECT_EQ(tensors[0].second[0][0].item<float>(), group.rank());
    if (group.rank() == 2) tensors.emplace_back("more", torch::zeros({1}));
    tensors[0].second = torch::zeros({1});
    EXPECT_THAT(message_of<InvalidInput>([&] { broadcast_parameters(group, tensors); }),
                HasSubstr("rank 2 has more Float [1] where rank 0 has nothing"));
  });
}

class BroadcastOptimizer : public ::testing::TestWithParam<std::pair<const char*, MakeOptimizer>> {
};

// Rank 1 has trained; ranks 0 and 2 have not. After the broadcast all go on to the same bits.
TEST_P(BroadcastOptimizer, RanksWithoutStateGoOnAsTheRootWould) {
  const MakeOptimizer& make = GetParam().second;
  std::vector<std::vector<torch::Tensor>> results(3);
  on_ranks(3, [&](Group& group) {
    auto model = make_model(0.5);
    const auto parameters = model->parameters();
    auto optimizer = make(parameters);
    if (group.rank() == 1) {
      for (int step = 0; step < 3; ++step) train_step(parameters, *optimizer, step);
      for (auto& options : optimizer->param_groups()) options.options().set_lr(0.02);
    }
    if (group.rank() == 2) train_step(parameters, *optimizer, 77);
    broadcast_parameters(group, *model, 1);
    broadcast_optimizer_state(group, *optimizer, 1);
    EXPECT_EQ(optimizer->param_groups()[0].options().get_lr(), 0.02);
    for (int step = 3; step < 6; ++step) train_step(parameters, *optimizer, step);
    for (const auto& tensor : parameters) results[group.rank()].push_back(tensor.detach().clone());
  });
  for (const int rank : {0, 2})
    for (std::size_t i = 0; i < results[1].size(); ++i)
      EXPECT_TRUE(torch::equal(results[rank][i], results[1][i])) << "rank " << rank;
  EXPECT_FALSE(torch::equal(results[1][0], make_model(0.5)->parameters()[0]));
}

template <typename Class, typename Options>
std::pair<const char*, MakeOptimizer> optimizer(const char* name, Options options) {
  return {name, [options](std::vector<torch::Tensor> parameters) {
            return std::make_unique<Class>(std::move(parameters), options);
          }};
}

INSTANTIATE_TEST_SUITE_P(
    Each, BroadcastOptimizer,
    ::testing::Values(
        optimizer<torch::optim::SGD>("SGD", torch::optim::SGDOptions(0.1)),
        optimizer<torch::optim::SGD>("Momentum", torch::optim::SGDOptions(0.1).momentum(0.9)),
        optimizer<torch::optim::Adam>("Adam", torch::optim::AdamOptions(0.1)),
        optimizer<torch::optim::Adam>("AMSGrad", torch::optim::AdamOptions(0.1).amsgrad(true)),
        optimizer<torch::optim::AdamW>("AdamW", torch::optim::AdamWOptions(0.1)),
        optimizer<torch::optim::RMSprop>(
            "RMSprop", torch::optim::RMSpropOptions(0.1).momentum(0.9).centered(true)),
        optimizer<torch::optim::Adagrad>("Adagrad", torch::optim::AdagradOptions(0.1))),
    [](const auto& info) { return info.param.first; });

TEST(BroadcastOptimizerState, AnOptimizerThatCannotBeSavedIsRefused) {
  class Plain : public Optimizer {
   public:
    using Optimizer::Optimizer;
    torch::Tensor step(LossClosure) override { return {}; }
  };
  on_ranks(2, [](Group& group) {
    Plain optimizer(std::vector<torch::Tensor>{torch::zeros({1})},
                    std::make_unique<torch::optim::SGDOptions>(0.1));
    EXPECT_THAT(message_of<InvalidInput>([&] { broadcast_optimizer_state(group, optimizer); }),
                HasSubstr("cannot be saved"));
  });
}

TEST(BroadcastObject, TextAndJsonArriveAsTheRootGaveThem) {
  on_ranks(3, [](Group& group) {
    const std::string text = std::string("a\0b", 3) + std::to_string(group.rank());
    EXPECT_EQ(broadcast_object(group, text, 2), std::string("a\0b2", 4));
    EXPECT_EQ(broadcast_object(group, group.rank() == 0 ? "" : "x"), "");
    const nlohmann::json mine = {{"rank", group.rank()}, {"list", {1, 2.5, nullptr}}};
    EXPECT_EQ(broadcast_json(group, mine, 1),
              (nlohmann::json{{"rank", 1}, {"list", {1, 2.5, nullptr}}}));
  });
}

TEST(AverageMetrics, EachRankCountsAsMuchAsItsWeight) {
  on_ranks(3, [](Group& group) {
    const double rank = group.rank();
    auto averages = average_metrics(group, {{"loss", rank}, {"accuracy", 1 - rank}});
    EXPECT_DOUBLE_EQ(averages.at("loss"), 1);
    EXPECT_DOUBLE_EQ(averages.at("accuracy"), 0);
    averages = average_metrics(group, {{"loss", rank == 0 ? std::nan("") : rank}}, 10 * rank);
    EXPECT_DOUBLE_EQ(averages.at("loss"), 5.0 / 3);
    EXPECT_THAT(message_of<InvalidInput>([&] {
                  average_metrics(group, {{group.rank() == 2 ? "lost" : "loss", 1.0}});
                }),
                HasSubstr("rank 2 has lost where rank 0 has loss"));
  });
}

}  // namespace
}  // namespace cohort::parallel

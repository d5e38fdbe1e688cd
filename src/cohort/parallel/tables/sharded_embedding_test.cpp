#include "cohort/parallel/tables/sharded_embedding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/parallel/tables/local_tables.h"

namespace cohort::parallel {
namespace {

struct Net : torch::nn::Module {
  explicit Net(std::vector<std::string> names = {"users"}) {
    for (const std::string& name : names)
      tables.push_back(
          register_module(name, ShardedEmbedding(ShardedEmbeddingOptions{
                                    .dimension = 3,
                                    .initial_scale = 1,
                                    .rule = {.kind = ps::UpdateRule::Kind::sgd, .lr = 0.5}})));
  }
  std::vector<ShardedEmbedding> tables;
};

TEST(ShardedEmbedding, LearnsAsADenseOneDoes) {
  Net net;
  LocalTables local(net);
  ShardedEmbedding& table = net.tables[0];
  const auto all = torch::arange(10, torch::kInt64);
  table->eval();
  torch::nn::Embedding dense(torch::nn::EmbeddingOptions(10, 3)._weight(table(all).clone()));
  table->train();
  torch::optim::SGD sgd(dense->parameters(), 0.5);
  auto generator = at::detail::createCPUGenerator(3);
  for (int step = 0; step < 5; ++step) {
    const auto keys = torch::randint(0, 10, {4, 6}, generator, torch::kInt64);
    const auto weights = torch::rand({4, 6, 3}, generator);
    (table(keys) * weights).sum().backward();
    local.update();
    sgd.zero_grad();
    (dense(keys) * weights).sum().backward();
    sgd.step();
  }
  table->eval();
  EXPECT_TRUE(torch::allclose(table(all), dense->weight, 1e-6, 1e-6));
  EXPECT_EQ(table(all).sizes(), (std::vector<std::int64_t>{10, 3}));
}

TEST(ShardedEmbedding, SumsDuplicatesAndBackwardsInTheirOrder) {
  Net net;
  LocalTables local(net);
  const auto keys = torch::tensor({7, -1, 7}, torch::kInt64);
  net.tables[0](keys).sum().backward();
  (net.tables[0](keys.slice(0, 0, 1)) * 2).sum().backward();
  const ps::RowGradients taken = net.tables[0]->take_gradients();
  EXPECT_EQ(taken.keys, (std::vector<std::uint64_t>{7, ~std::uint64_t{0}}));
  EXPECT_EQ(taken.values, (std::vector<float>{4, 4, 4, 1, 1, 1}));
  EXPECT_TRUE(net.tables[0]->take_gradients().keys.empty());
}

TEST(ShardedEmbedding, EvaluationLeavesNoGradients) {
  Net net;
  LocalTables local(net);
  const auto keys = torch::tensor({1, 2}, torch::kInt64);
  net.eval();
  EXPECT_FALSE(net.tables[0](keys).requires_grad());
  net.train();
  torch::NoGradGuard no_gradients;
  EXPECT_FALSE(net.tables[0](keys).requires_grad());
  EXPECT_EQ(local.sizes()[0].rows, 0u);
}

TEST(ShardedEmbedding, AnEmptyBatchHasAnEmptyResult) {
  Net net;
  LocalTables local(net);
  const auto rows = net.tables[0](torch::empty({0, 2}, torch::kInt64));
  EXPECT_EQ(rows.sizes(), (std::vector<std::int64_t>{0, 2, 3}));
  local.update();
  EXPECT_EQ(local.sizes()[0].rows, 0u);
}

TEST(ShardedEmbedding, SaysWhatItNeeds) {
  Net net;
  const auto call = [&](const torch::Tensor& keys) { net.tables[0](keys); };
  EXPECT_EQ(message_of<InvalidInput>([&] { call(torch::ones({2}, torch::kInt64)); }),
            "an embedding table is not connected to its rows. Train the model with "
            "cohort::Trainer.");
  EXPECT_EQ(message_of<InvalidInput>([&] { call(torch::ones({2})); }),
            "keys of an embedding table are Float. Give int64.");
  EXPECT_EQ(
      message_of<InvalidInput>([] { ShardedEmbedding(ShardedEmbeddingOptions{.dimension = 0}); }),
      "an embedding table of dimension 0 that admits rows after 1. Both must be at least 1.");
}

TEST(LocalTables, AreNamedAsTheirModules) {
  Net net({"users", "items"});
  LocalTables local(net);
  net.tables[1](torch::arange(5, torch::kInt64)).sum().backward();
  local.update();
  ASSERT_EQ(local.sizes().size(), 2u);
  EXPECT_EQ(local.sizes()[0].table, "items");
  EXPECT_EQ(local.sizes()[0].rows, 5u);
  EXPECT_EQ(local.sizes()[1].rows, 0u);
  EXPECT_EQ(LocalTables::first_table(net), "items");
}

TEST(LocalTables, TheScaleOfTheLossIsTakenOut) {
  Net net, plain;
  LocalTables local(net), unscaled(plain);
  const auto keys = torch::arange(5, torch::kInt64);
  (net.tables[0](keys).square().sum() * 1024).backward();
  local.update(1024);
  plain.tables[0](keys).square().sum().backward();
  unscaled.update();
  EXPECT_TRUE(torch::equal(net.tables[0](keys), plain.tables[0](keys)));
}

TEST(LocalTables, AStepThatIsLeftOutChangesNothing) {
  Net net;
  LocalTables local(net);
  net.tables[0](torch::arange(5, torch::kInt64)).sum().backward();
  local.drop_gradients();
  local.update();
  EXPECT_EQ(local.sizes()[0].rows, 0u);
}

TEST(LocalTables, AGradientThatIsNotFiniteIsNotApplied) {
  Net net;
  LocalTables local(net);
  (net.tables[0](torch::arange(5, torch::kInt64)) * INFINITY).sum().backward();
  EXPECT_EQ(message_of<Error>([&] { local.update(); }),
            "a gradient of table 'users' is not finite (during step 1). Lower the learning rate, "
            "or look at the data.");
  EXPECT_EQ(local.sizes()[0].rows, 0u);
}

}  // namespace
}  // namespace cohort::parallel

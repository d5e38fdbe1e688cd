#include "cohort/parallel/tensors/random_scope.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <thread>

#include "cohort/base/error.h"
#include "cohort/parallel/strategies/replicas_test.h"

namespace cohort::parallel {
namespace {

// Every way to draw that training uses: created, in place, into an out tensor, and inside modules.
std::vector<torch::Tensor> draw_everything() {
  std::vector<torch::Tensor> drawn{
      torch::rand({50}),
      torch::randn({33}),
      torch::randint(100, {20}),
      torch::randperm(40),
      torch::rand_like(torch::empty({5}, torch::kDouble)),
      torch::empty({17}).normal_(1, 2),
      torch::empty({17}).uniform_(),
      torch::empty({30}).bernoulli_(0.3),
      torch::bernoulli(torch::full({30}, 0.4)),
      torch::multinomial(torch::ones({10}), 4),
      torch::dropout(torch::ones({200}), 0.5, true),
  };
  drawn.push_back(torch::empty({12}));
  torch::rand_out(drawn.back(), {12});
  drawn.push_back(torch::empty({9}, torch::kLong));
  torch::randperm_out(drawn.back(), 9);
  torch::nn::Sequential module(torch::nn::Linear(20, 30), torch::nn::Dropout(0.4),
                               torch::nn::Dropout2d(0.2));
  torch::Tensor input = torch::randn({4, 20}).requires_grad_();
  torch::Tensor output = module->forward(input.unsqueeze(0)).squeeze(0);
  output.pow(2).sum().backward();
  drawn.push_back(output);
  drawn.push_back(input.grad());
  drawn.push_back(module->parameters()[0].grad());
  return drawn;
}

void expect_same(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same_bits(a[i], b[i])) << "draw " << i;
}

std::vector<torch::Tensor> reference(std::uint64_t seed) {
  torch::manual_seed(seed);
  return draw_everything();
}

TEST(RandomScope, AloneDrawsWhatManualSeedLeadsTo) {
  const auto expected = reference(42);
  torch::manual_seed(7);
  const torch::Tensor next = torch::rand({3});
  torch::manual_seed(7);
  {
    RandomScope scope(42, torch::kCPU, false);
    expect_same(draw_everything(), expected);
  }
  EXPECT_TRUE(same_bits(torch::rand({3}), next));  // outside nothing has changed
}

TEST(RandomScope, ThreadsOfOneProcessDrawEachTheirOwn) {
  const auto first = reference(1), second = reference(2);
  std::vector<std::thread> threads;
  for (const auto* expected : {&first, &second})
    threads.emplace_back([&, expected] {
      for (int round = 0; round < 50; ++round) {
        RandomScope scope(expected == &first ? 1 : 2, torch::kCPU, true);
        expect_same(draw_everything(), *expected);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(RandomScope, OtherThreadsAndLaterDrawsAreNotTouched) {
  torch::manual_seed(9);
  const auto expected = draw_everything();
  torch::manual_seed(9);
  {
    RandomScope scope(1, torch::kCPU, true);
    draw_everything();
    std::thread([] { torch::rand({0}); }).join();
  }
  expect_same(draw_everything(), expected);
}

TEST(RandomScope, AGeneratorThatIsNamedIsUsed) {
  at::Generator mine = at::detail::createCPUGenerator(5);
  const torch::Tensor expected = torch::rand({8}, mine);
  mine = at::detail::createCPUGenerator(5);
  RandomScope scope(1, torch::kCPU, true);
  EXPECT_TRUE(same_bits(torch::rand({8}, mine), expected));
}

TEST(RandomScope, NestingIsRefused) {
  RandomScope scope(1, torch::kCPU, true);
  EXPECT_THROW(RandomScope(2, torch::kCPU, true), InvalidInput);
}

}  // namespace
}  // namespace cohort::parallel

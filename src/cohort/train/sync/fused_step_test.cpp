#include "cohort/train/sync/fused_step.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cohort/train/checkpoint/optimizer_state.h"

namespace cohort::train {
namespace {

using Parameters = std::vector<torch::Tensor>;
struct FusedRule {
  std::string name;
  std::function<std::unique_ptr<torch::optim::Optimizer>(const Parameters&)> make;
};

template <typename Optimizer, typename Options>
FusedRule fused_rule(std::string name, const Options& options) {
  return {std::move(name), [options](const Parameters& parameters) {
            return std::make_unique<Optimizer>(parameters, options);
          }};
}

std::vector<FusedRule> fused_rules() {
  using namespace torch::optim;
  return {
      fused_rule<SGD>("sgd", SGDOptions(0.1).weight_decay(0.01)),
      fused_rule<SGD>("momentum", SGDOptions(0.1).momentum(0.9).weight_decay(0.01)),
      fused_rule<SGD>("nesterov", SGDOptions(0.1).momentum(0.9).nesterov(true)),
      fused_rule<Adam>("adam", AdamOptions(0.01).weight_decay(0.1)),
      fused_rule<AdamW>("adamw", AdamWOptions(0.01).weight_decay(0.1)),
  };
}

std::vector<torch::Device> devices_here() {
  std::vector<torch::Device> all{torch::kCPU};
  if (torch::cuda::is_available()) all.emplace_back(torch::kCUDA);
  return all;
}

Parameters parameters_on(torch::Device device) {
  torch::manual_seed(5);
  Parameters parameters{torch::randn({7}), torch::randn({64, 33}), torch::randn({8, 5, 3, 3})};
  parameters[2] = parameters[2].contiguous(torch::MemoryFormat::ChannelsLast);
  for (torch::Tensor& parameter : parameters)
    parameter = parameter.to(device).detach().requires_grad_(true);
  return parameters;
}

void give_gradients(const Parameters& parameters, int step) {
  torch::manual_seed(100 + step);
  for (torch::Tensor parameter : parameters)
    parameter.mutable_grad() = torch::empty_like(parameter.detach())
                                   .copy_(torch::randn(parameter.sizes()).to(parameter.device()));
}

void expect_close(const Parameters& some, const Parameters& others, const std::string& what) {
  ASSERT_EQ(some.size(), others.size()) << what;
  for (std::size_t i = 0; i < some.size(); ++i)
    EXPECT_TRUE(torch::allclose(some[i], others[i], 1e-5, 1e-6)) << what << ", tensor " << i;
}

class FusedSteps : public ::testing::Test {
 protected:
  void SetUp() override {
    torch::optim::SGD probe(parameters_on(torch::kCPU), 0.1);
    give_gradients(probe.param_groups()[0].params(), 0);
    if (!FusedStep(probe).applies()) GTEST_SKIP() << "this LibTorch has no fused steps";
  }
};

void set_rate(torch::optim::Optimizer& optimizer, double rate) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(rate);
}

// The rate changes on the way, and every third step is the optimizer's own.
TEST_F(FusedSteps, DoWhatTheOptimizerDoesAndTakeTurnsWithIt) {
  for (const torch::Device device : devices_here()) {
    for (const FusedRule& rule : fused_rules()) {
      const Parameters expected = parameters_on(device), given = parameters_on(device);
      const auto own = rule.make(expected), fused = rule.make(given);
      FusedStep step(*fused);
      for (int i = 0; i < 7; ++i) {
        give_gradients(expected, i);
        give_gradients(given, i);
        set_rate(*own, 0.02 * (i + 1));
        set_rate(*fused, 0.02 * (i + 1));
        own->step();
        ASSERT_TRUE(step.applies()) << rule.name;
        if (i % 3 == 2)
          fused->step();
        else
          step.step();
      }
      expect_close(given, expected, rule.name);
      expect_close(optimizer_state_tensors(*fused), optimizer_state_tensors(*own),
                   rule.name + "'s state");
    }
  }
}

// What a replayed graph does: the kernels again, with the host's part before and after.
TEST_F(FusedSteps, InTheirPartsCountAsWholeSteps) {
  const FusedRule rule = fused_rules()[4];
  const Parameters expected = parameters_on(torch::kCPU), given = parameters_on(torch::kCPU);
  const auto own = rule.make(expected), fused = rule.make(given);
  FusedStep step(*fused);
  give_gradients(expected, 1);
  give_gradients(given, 1);
  ASSERT_TRUE(step.applies());
  for (int i = 0; i < 4; ++i) {
    own->step();
    step.prepare();
    step.enqueue();
    step.count();
  }
  expect_close(given, expected, "adamw");
  own->step();
  fused->step();  // which goes by the optimizer's own count
  expect_close(given, expected, "adamw, its own step");
}

TEST_F(FusedSteps, LeaveTheRestToTheOptimizer) {
  using namespace torch::optim;
  const Parameters parameters = parameters_on(torch::kCPU);
  const auto applies = [&](const FusedRule& rule) {
    give_gradients(parameters, 0);
    const auto optimizer = rule.make(parameters);
    return FusedStep(*optimizer).applies();
  };
  EXPECT_FALSE(applies(fused_rule<SGD>("dampening", SGDOptions(0.1).momentum(0.9).dampening(0.3))));
  EXPECT_FALSE(applies(fused_rule<Adam>("amsgrad", AdamOptions(0.01).amsgrad(true))));
  EXPECT_FALSE(applies(fused_rule<RMSprop>("rmsprop", RMSpropOptions(0.01))));
  EXPECT_TRUE(applies(fused_rules()[1]));
  const auto optimizer = fused_rules()[1].make(parameters);
  torch::Tensor one = parameters[1];
  one.mutable_grad().reset();
  EXPECT_FALSE(FusedStep(*optimizer).applies()) << "a parameter has no gradient";
  one.mutable_grad() = torch::randn({33, 64}).t();
  EXPECT_FALSE(FusedStep(*optimizer).applies()) << "a gradient lies otherwise than its parameter";
}

}  // namespace
}  // namespace cohort::train

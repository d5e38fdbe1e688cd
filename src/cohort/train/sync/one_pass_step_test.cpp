#include "cohort/train/sync/one_pass_step.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cohort/train/checkpoint/parameter_state.h"

namespace cohort::train {
namespace {

using Tensors = std::vector<torch::Tensor>;
struct NamedRule {
  std::string name;
  std::function<std::unique_ptr<torch::optim::Optimizer>(const Tensors&)> make;
};

template <typename Optimizer, typename Options>
NamedRule rule(std::string name, const Options& options) {
  return {std::move(name), [options](const Tensors& parameters) {
            return std::make_unique<Optimizer>(parameters, options);
          }};
}

std::vector<NamedRule> all_rules() {
  using namespace torch::optim;
  return {
      rule<SGD>("sgd", SGDOptions(0.1)),
      rule<SGD>("momentum", SGDOptions(0.1).momentum(0.9).weight_decay(0.01)),
      rule<SGD>("nesterov", SGDOptions(0.1).momentum(0.9).nesterov(true)),
      rule<SGD>("dampening", SGDOptions(0.1).momentum(0.9).dampening(0.3)),
      rule<Adam>("adam", AdamOptions(0.01).weight_decay(0.1)),
      rule<Adam>("amsgrad", AdamOptions(0.01).amsgrad(true)),
      rule<AdamW>("adamw", AdamWOptions(0.01).weight_decay(0.1)),
      rule<RMSprop>("rmsprop", RMSpropOptions(0.01).momentum(0.5).centered(true)),
      rule<RMSprop>("rmsprop, plain", RMSpropOptions(0.01).weight_decay(0.1)),
      rule<Adagrad>("adagrad", AdagradOptions(0.1).lr_decay(0.1).initial_accumulator_value(0.2)),
  };
}

// The same every time. Sizes that fill no vector, more than one thread's part, and images of
// channels that lie last.
Tensors make_parameters(torch::ScalarType type) {
  torch::manual_seed(5);
  Tensors parameters;
  for (const auto& shape :
       std::vector<std::vector<std::int64_t>>{{1}, {7}, {64, 33}, {100003}, {8, 5, 3, 3}, {3}})
    parameters.push_back(torch::randn(shape, type));
  parameters[4] = parameters[4].contiguous(torch::MemoryFormat::ChannelsLast);
  for (torch::Tensor& parameter : parameters) parameter.set_requires_grad(true);
  return parameters;
}

// The last parameter has one in the second step alone.
void set_gradients(const Tensors& parameters, int step) {
  torch::manual_seed(100 + step);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    torch::Tensor parameter = parameters[i];
    const torch::Tensor gradient = torch::randn(parameter.sizes(), parameter.scalar_type());
    if (i + 1 == parameters.size() && step != 1)
      parameter.mutable_grad() = torch::Tensor();
    else
      parameter.mutable_grad() = torch::empty_like(parameter.detach()).copy_(gradient);
  }
}

class ThreadCount {
 public:
  explicit ThreadCount(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~ThreadCount() { at::set_num_threads(before_); }

 private:
  int before_;
};

void expect_same_state(const torch::optim::Optimizer& one, const Tensors& of_one,
                       const torch::optim::Optimizer& other, const Tensors& of_other) {
  for (std::size_t i = 0; i < of_one.size(); ++i) {
    const auto a = read_parameter_state(one, of_one[i]),
               b = read_parameter_state(other, of_other[i]);
    ASSERT_EQ(a.has_value(), b.has_value()) << i;
    if (!a) continue;
    EXPECT_EQ(a->numbers, b->numbers) << i;
    ASSERT_EQ(a->tensors.size(), b->tensors.size()) << i;
    for (const auto& [name, tensor] : a->tensors)
      EXPECT_TRUE(torch::equal(tensor, b->tensors.at(name))) << name << " of " << i;
  }
}

// Steps in one pass, with `threads`, beside LibTorch's own with one.
void expect_same_bits(const NamedRule& rule, torch::ScalarType type, int threads) {
  SCOPED_TRACE(rule.name);
  const Tensors ours = make_parameters(type), theirs = make_parameters(type);
  const auto our_optimizer = rule.make(ours), their_optimizer = rule.make(theirs);
  for (int step = 0; step < 4; ++step) {
    set_gradients(ours, step);
    set_gradients(theirs, step);
    {
      const ThreadCount some(threads);
      step_in_one_pass(*our_optimizer);
    }
    const ThreadCount one(1);
    their_optimizer->step();
    for (std::size_t i = 0; i < ours.size(); ++i)
      ASSERT_TRUE(torch::equal(ours[i], theirs[i])) << "parameter " << i << ", step " << step;
  }
  expect_same_state(*our_optimizer, ours, *their_optimizer, theirs);
}

TEST(OnePassStepTest, GivesTheBitsOfTheOptimizersOwnStep) {
  for (const NamedRule& rule : all_rules())
    for (const auto type : {torch::kFloat, torch::kDouble}) expect_same_bits(rule, type, 1);
}

TEST(OnePassStepTest, ThreadsDoNotChangeTheBits) {
  for (const NamedRule& rule : all_rules()) expect_same_bits(rule, torch::kFloat, 3);
}

TEST(OnePassStepTest, TakesTurnsWithTheOptimizersOwnStep) {
  for (const NamedRule& rule : all_rules()) {
    SCOPED_TRACE(rule.name);
    const ThreadCount one(1);
    const Tensors ours = make_parameters(torch::kFloat), theirs = make_parameters(torch::kFloat);
    const auto our_optimizer = rule.make(ours), their_optimizer = rule.make(theirs);
    for (int step = 0; step < 6; ++step) {
      set_gradients(ours, step);
      set_gradients(theirs, step);
      if (step % 2 == 0)
        step_in_one_pass(*our_optimizer);
      else
        our_optimizer->step();
      their_optimizer->step();
    }
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(torch::equal(ours[i], theirs[i])) << i;
  }
}

TEST(OnePassStepTest, OptionsCountThatChangedBetweenSteps) {
  const ThreadCount one(1);
  const Tensors ours = make_parameters(torch::kFloat), theirs = make_parameters(torch::kFloat);
  torch::optim::SGD our_optimizer(ours, torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::optim::SGD their_optimizer(theirs, torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 3; ++step) {
    for (torch::optim::Optimizer* optimizer :
         std::vector<torch::optim::Optimizer*>{&our_optimizer, &their_optimizer}) {
      auto& options =
          static_cast<torch::optim::SGDOptions&>(optimizer->param_groups()[0].options());
      options.lr(0.1 * (step + 1)).momentum(0.5 + 0.1 * step);
    }
    set_gradients(ours, step);
    set_gradients(theirs, step);
    step_in_one_pass(our_optimizer);
    their_optimizer.step();
  }
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(torch::equal(ours[i], theirs[i])) << i;
}

// A momentum that is switched off keeps what it has for when it is on again.
TEST(OnePassStepTest, StateThatARuleDoesNotUseStays) {
  const ThreadCount one(1);
  const Tensors ours = make_parameters(torch::kFloat), theirs = make_parameters(torch::kFloat);
  torch::optim::SGD our_optimizer(ours, torch::optim::SGDOptions(0.1));
  torch::optim::SGD their_optimizer(theirs, torch::optim::SGDOptions(0.1));
  for (const double momentum : {0.9, 0.0, 0.9}) {
    for (torch::optim::Optimizer* optimizer :
         std::vector<torch::optim::Optimizer*>{&our_optimizer, &their_optimizer})
      static_cast<torch::optim::SGDOptions&>(optimizer->param_groups()[0].options())
          .momentum(momentum);
    set_gradients(ours, 1);
    set_gradients(theirs, 1);
    step_in_one_pass(our_optimizer);
    their_optimizer.step();
  }
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(torch::equal(ours[i], theirs[i])) << i;
  expect_same_state(our_optimizer, ours, their_optimizer, theirs);

  torch::optim::Adam adam(ours, torch::optim::AdamOptions(0.01).amsgrad(true));
  for (const bool amsgrad : {true, false}) {
    static_cast<torch::optim::AdamOptions&>(adam.param_groups()[0].options()).amsgrad(amsgrad);
    set_gradients(ours, 1);
    step_in_one_pass(adam);
  }
  EXPECT_TRUE(read_parameter_state(adam, ours[0])->tensors.contains("max_exp_avg_sq"));
}

// What has no rule here: bf16, a gradient that lies otherwise, a derived class.
TEST(OnePassStepTest, LeavesTheRestToTheOptimizer) {
  const ThreadCount one(1);
  for (const bool half : {false, true}) {
    const auto type = half ? torch::kBFloat16 : torch::kFloat;
    torch::manual_seed(7);
    const torch::Tensor ours = torch::randn({5, 6}, type).set_requires_grad(true);
    const torch::Tensor theirs = ours.detach().clone().set_requires_grad(true);
    torch::optim::SGD our_optimizer({ours}, torch::optim::SGDOptions(0.1).momentum(0.9));
    torch::optim::SGD their_optimizer({theirs}, torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int step = 0; step < 3; ++step) {
      const torch::Tensor gradient = torch::randn({6, 5}, type).t();
      ours.mutable_grad() = gradient;
      theirs.mutable_grad() = gradient.clone(torch::MemoryFormat::Preserve);
      step_in_one_pass(our_optimizer);
      their_optimizer.step();
    }
    EXPECT_TRUE(torch::equal(ours, theirs)) << half;
  }
  struct Counting : torch::optim::SGD {
    using SGD::SGD;
    torch::Tensor step(LossClosure closure = nullptr) override {
      ++steps;
      return SGD::step(closure);
    }
    int steps = 0;
  };
  const Tensors parameters = make_parameters(torch::kFloat);
  set_gradients(parameters, 0);
  Counting counting(parameters, torch::optim::SGDOptions(0.1));
  step_in_one_pass(counting);
  EXPECT_EQ(counting.steps, 1);
}

// As after optimizer.step(): a graph that was made before the update is not silently used after it.
TEST(OnePassStepTest, AGraphFromBeforeTheUpdateIsRefused) {
  const torch::Tensor weight = torch::ones({4}).set_requires_grad(true);
  torch::optim::SGD optimizer({weight}, 0.1);
  const torch::Tensor loss = (weight * weight).sum();
  weight.mutable_grad() = torch::ones({4});
  step_in_one_pass(optimizer);
  EXPECT_THROW(loss.backward(), c10::Error);
}

}  // namespace
}  // namespace cohort::train

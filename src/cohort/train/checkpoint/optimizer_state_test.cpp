#include "cohort/train/checkpoint/optimizer_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/checkpoint/module_state.h"
#include "cohort/train/checkpoint/optimizer_clone.h"
#include "cohort/train/checkpoint/small_model_test.h"

namespace cohort::train {
namespace {

using namespace torch::optim;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Parameters = std::vector<torch::Tensor>;
using Factory = std::function<std::unique_ptr<Optimizer>(const Parameters&)>;

template <typename Class, typename Options>
Factory factory(Options options) {
  return [options](const Parameters& parameters) {
    return std::make_unique<Class>(parameters, options);
  };
}

// Two groups with options of their own.
std::unique_ptr<Optimizer> two_groups(const Parameters& parameters) {
  const auto half = parameters.begin() + static_cast<std::ptrdiff_t>(parameters.size() / 2);
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(Parameters(parameters.begin(), half),
                      std::make_unique<AdamOptions>(AdamOptions(3e-3).weight_decay(0.1)));
  // 1e-3 is the class's default: torch 2.13 would replace it by that of the optimizer.
  groups.emplace_back(Parameters(half, parameters.end()));
  auto optimizer = std::make_unique<Adam>(groups, AdamOptions(5e-3));
  optimizer->param_groups()[1].options().set_lr(1e-3);
  return optimizer;
}

struct Case {
  const char* name;
  Factory make;
};

const Case kCases[] = {
    {"SGD", factory<SGD>(SGDOptions(0.05))},
    {"SGD_momentum", factory<SGD>(SGDOptions(0.05).momentum(0.9).dampening(0.1))},
    {"SGD_nesterov",
     factory<SGD>(SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(1e-3))},
    {"Adam", factory<Adam>(AdamOptions(2e-3).betas({0.8, 0.99}))},
    {"Adam_amsgrad", factory<Adam>(AdamOptions(2e-3).amsgrad(true).weight_decay(0.01))},
    {"AdamW", factory<AdamW>(AdamWOptions(2e-3).weight_decay(0.05))},
    {"AdamW_amsgrad", factory<AdamW>(AdamWOptions(2e-3).amsgrad(true).eps(1e-6))},
    {"RMSprop", factory<RMSprop>(RMSpropOptions(1e-3))},
    {"RMSprop_centered",
     factory<RMSprop>(RMSpropOptions(1e-3).centered(true).momentum(0.9).weight_decay(0.01))},
    {"Adagrad",
     factory<Adagrad>(AdagradOptions(0.01).lr_decay(0.01).initial_accumulator_value(0.1))},
    {"Adam_groups", two_groups},
};

class OptimizerStates : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Every, OptimizerStates, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST_P(OptimizerStates, ARestoredTrainingHasTheBitsOfOneThatNeverStopped) {
  constexpr int kSteps = 4;
  auto model = make_model();
  auto optimizer = GetParam().make(model->parameters());
  for (int step = 0; step < kSteps; ++step) train_step(model, *optimizer, step);
  optimizer->param_groups()[0].options().set_lr(0.0123);  // as a schedule does

  auto resumed = make_model(99);
  auto resumed_optimizer = GetParam().make(resumed->parameters());
  const auto saved = capture_optimizer(*optimizer, ParameterNames(*model));
  const OptimizerState read{saved.tensors, nlohmann::json::parse(saved.scalars.dump())};
  restore_module(*resumed, capture_module(*model));
  restore_optimizer(*resumed_optimizer, ParameterNames(*resumed), read);
  EXPECT_EQ(fingerprint(*resumed), fingerprint(*model));

  for (int step = kSteps; step < 2 * kSteps; ++step) {
    train_step(model, *optimizer, step);
    train_step(resumed, *resumed_optimizer, step);
  }
  EXPECT_EQ(fingerprint(*resumed), fingerprint(*model));
  EXPECT_EQ(capture_optimizer(*resumed_optimizer, ParameterNames(*resumed)).scalars,
            capture_optimizer(*optimizer, ParameterNames(*model)).scalars);
  EXPECT_EQ(optimizer_state_tensors(*resumed_optimizer).size(),
            optimizer_state_tensors(*optimizer).size());
}

TEST_P(OptimizerStates, ACloneTrainsItsReplicaLikeTheOriginal) {
  auto model = make_model(), replica = make_model();
  auto optimizer = GetParam().make(model->parameters());
  auto clone = clone_optimizer(*optimizer, model->parameters(), replica->parameters());
  for (int step = 0; step < 3; ++step) {
    train_step(model, *optimizer, step);
    train_step(replica, *clone, step);
  }
  EXPECT_EQ(fingerprint(*replica), fingerprint(*model));
  EXPECT_EQ(capture_optimizer(*clone, ParameterNames(*replica)).scalars,
            capture_optimizer(*optimizer, ParameterNames(*model)).scalars);
}

TEST(OptimizerState, IsKeyedByFieldAndParameter) {
  auto model = make_model();
  Adam adam(model->parameters(), AdamOptions(1e-3));
  EXPECT_TRUE(capture_optimizer(adam, ParameterNames(*model)).tensors.empty());
  train_step(model, adam, 0);
  const auto saved = capture_optimizer(adam, ParameterNames(*model));
  EXPECT_TRUE(saved.tensors.contains("exp_avg.first.weight"));
  EXPECT_EQ(saved.tensors.size(), 2 * model->parameters().size());
  EXPECT_EQ(saved.scalars["state"]["conv.weight"]["step"], 1);
  EXPECT_EQ(optimizer_state_tensors(adam).size(), saved.tensors.size());
}

TEST(OptimizerState, WhatDoesNotFitIsNamedAndChangesNothing) {
  auto model = make_model();
  Adam adam(model->parameters(), AdamOptions(1e-3));
  train_step(model, adam, 0);
  const ParameterNames names(*model);
  const auto saved = capture_optimizer(adam, names);
  SGD sgd(model->parameters(), SGDOptions(0.1));
  EXPECT_THAT(message_of<InvalidInput>([&] { restore_optimizer(sgd, names, saved); }),
              HasSubstr("of Adam, the optimizer is SGD"));
  Adam part({model->first->weight}, AdamOptions(1e-3));
  EXPECT_THAT(message_of<InvalidInput>([&] { restore_optimizer(part, names, saved); }),
              AllOf(HasSubstr("group 0 has no 'conv.weight'"), HasSubstr("'second.bias'")));
  auto cut = saved;
  cut.scalars["groups"][0]["options"].erase("eps");
  EXPECT_THAT(message_of<InvalidInput>([&] { restore_optimizer(adam, names, cut); }),
              HasSubstr("eps"));
  cut = saved;
  cut.tensors["exp_avg.first.bias"] = torch::zeros({3});
  EXPECT_THAT(message_of<InvalidInput>([&] { restore_optimizer(adam, names, cut); }),
              HasSubstr("'exp_avg.first.bias' has shape [3], its parameter [8]"));
  cut = saved;
  cut.tensors["exp_avg.gone"] = torch::zeros({3});
  EXPECT_THROW(restore_optimizer(adam, names, cut), InvalidInput);
  EXPECT_EQ(capture_optimizer(adam, names).scalars, saved.scalars);
  auto other = make_model();
  EXPECT_THAT(message_of<InvalidInput>([&] { capture_optimizer(adam, ParameterNames(*other)); }),
              HasSubstr("[4, 1, 3, 3] that the model does not"));
}

struct OwnOptimizer : SGD {
  using SGD::SGD;
};

TEST(OptimizerState, ClassesThatAreNotKnownAreNamed) {
  auto model = make_model();
  LBFGS lbfgs(model->parameters());
  EXPECT_THAT(message_of<InvalidInput>([&] { capture_optimizer(lbfgs, ParameterNames(*model)); }),
              HasSubstr("LBFGS"));
  OwnOptimizer own(model->parameters(), SGDOptions(0.1));
  EXPECT_THAT(message_of<InvalidInput>(
                  [&] { clone_optimizer(own, model->parameters(), model->parameters()); }),
              AllOf(HasSubstr("OwnOptimizer"), HasSubstr("factory")));
}

TEST(ModuleState, EveryEntryThatDoesNotFitIsNamedAndNothingChanges) {
  auto model = make_model();
  auto tensors = capture_module(*make_model(2));
  EXPECT_TRUE(tensors.contains("norm.running_mean"));
  EXPECT_TRUE(tensors.contains("norm.num_batches_tracked"));
  EXPECT_FALSE(tensors.contains("conv.bias"));
  tensors.erase("first.bias");
  tensors["extra"] = torch::ones({1});
  tensors["conv.weight"] = torch::ones({4, 1, 3, 2});
  tensors["norm.weight"] = torch::ones({4}, torch::kFloat64);
  const auto before = fingerprint(*model);
  EXPECT_THAT(
      message_of<InvalidInput>([&] { restore_module(*model, tensors); }),
      AllOf(HasSubstr("'first.bias' is missing"), HasSubstr("no 'extra'"),
            HasSubstr("'conv.weight' is Float [4, 1, 3, 2], the model has Float [4, 1, 3, 3]"),
            HasSubstr("'norm.weight' is Double [4]")));
  EXPECT_EQ(fingerprint(*model), before);
}

TEST(ModuleState, AFingerprintSeesOneBitAndEveryBuffer) {
  auto model = make_model();
  EXPECT_EQ(fingerprint(*model), fingerprint(*make_model()));
  const auto before = fingerprint(*model);
  EXPECT_EQ(before.size(), 64u);
  torch::NoGradGuard no_grad;
  model->norm->num_batches_tracked.add_(1);
  EXPECT_NE(fingerprint(*model), before);
  model->norm->num_batches_tracked.sub_(1);
  EXPECT_EQ(fingerprint(*model), before);
  model->first->weight.view({-1})[0] = -model->first->weight.view({-1})[0];
  EXPECT_NE(fingerprint(*model), before);
}

TEST(ModuleState, TensorsOnAGpuAreSavedAndRestoredThere) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  auto model = make_model(), on_gpu = make_model();
  on_gpu->to(torch::kCUDA);
  EXPECT_EQ(fingerprint(*on_gpu), fingerprint(*model));
  auto other = make_model(5);
  Adam adam(other->parameters(), AdamOptions(1e-3));
  train_step(other, adam, 0);
  Adam gpu_adam(on_gpu->parameters(), AdamOptions(1e-3));
  restore_module(*on_gpu, capture_module(*other));
  restore_optimizer(gpu_adam, ParameterNames(*on_gpu),
                    capture_optimizer(adam, ParameterNames(*other)));
  EXPECT_EQ(fingerprint(*on_gpu), fingerprint(*other));
  for (const auto& tensor : optimizer_state_tensors(gpu_adam)) EXPECT_TRUE(tensor.is_cuda());
}

}  // namespace
}  // namespace cohort::train

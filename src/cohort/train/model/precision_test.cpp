#include "cohort/train/model/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/parallel/gradients/distributed_data_parallel.h"
#include "cohort/parallel/tensors/on_ranks_test.h"

namespace cohort::train {
namespace {

using ::testing::HasSubstr;

torch::ScalarType product_type() {
  const torch::Tensor x = torch::ones({2, 2});
  return torch::matmul(x, x).scalar_type();
}

TEST(Autocast, ScopesNest) {
  const torch::Device cpu = torch::kCPU;
  EXPECT_EQ(product_type(), torch::kFloat32);
  {
    const Autocast outer(Precision::bf16, cpu);
    EXPECT_EQ(product_type(), torch::kBFloat16);
    {
      const Autocast inner(Precision::f32, cpu);
      EXPECT_EQ(product_type(), torch::kFloat32);
    }
    EXPECT_EQ(product_type(), torch::kBFloat16);
  }
  EXPECT_EQ(product_type(), torch::kFloat32);
}

// One weight, whose gradient is `gradient`.
struct OneWeight {
  torch::Tensor weight = torch::zeros({1}, torch::requires_grad());
  torch::optim::SGD sgd{std::vector<torch::Tensor>{weight}, torch::optim::SGDOptions(1)};
  void backward(const GradScaler& scaler, double gradient) {
    sgd.zero_grad();
    scaler.scale((weight * gradient).sum()).backward();
  }
  double value() const { return weight.item<double>(); }
};

TEST(GradScaler, StepsAreThoseOfTheUnscaledLoss) {
  GradScaler scaler(Precision::f16, {.initial_scale = 1024});
  OneWeight one;
  one.backward(scaler, 0.5);
  EXPECT_EQ(one.weight.grad().item<double>(), 512);
  EXPECT_TRUE(scaler.step(one.sgd));
  scaler.update();
  EXPECT_EQ(one.value(), -0.5);
  one.backward(scaler, 0.25);
  scaler.unscale_(one.sgd);
  EXPECT_EQ(one.weight.grad().item<double>(), 0.25);  // to be clipped
  EXPECT_THAT(message_of<InvalidInput>([&] { scaler.unscale_(one.sgd); }), HasSubstr("update()"));
  EXPECT_TRUE(scaler.step(one.sgd));
  EXPECT_THAT(message_of<InvalidInput>([&] { scaler.step(one.sgd); }), HasSubstr("twice"));
  scaler.update();
  EXPECT_EQ(one.value(), -0.75);
  EXPECT_EQ(scaler.get_scale(), 1024);
}

TEST(GradScaler, TheScaleFollowsWhatGradientsBear) {
  GradScaler scaler(Precision::f16, {.initial_scale = 8, .growth_interval = 2});
  OneWeight one, other;
  one.backward(scaler, std::numeric_limits<float>::infinity());
  other.backward(scaler, 1);
  EXPECT_FALSE(scaler.step(one.sgd));
  EXPECT_TRUE(scaler.step(other.sgd));
  scaler.update();
  EXPECT_EQ(one.value(), 0);
  EXPECT_EQ(scaler.get_scale(), 4);
  GradScaler restored(Precision::f16);
  for (int i = 0; i < 2; ++i) {
    other.backward(scaler, 1);
    scaler.step(other.sgd);
    scaler.update();
    if (i == 0) restored.set_state(scaler.state());
  }
  EXPECT_EQ(scaler.get_scale(), 8);
  EXPECT_EQ(restored.get_scale(), 4);
  EXPECT_EQ(restored.state().at("good_steps"), 1);
}

TEST(GradScaler, OtherPrecisionsNeedNone) {
  GradScaler scaler(Precision::bf16);
  OneWeight one;
  one.backward(scaler, 0.5);
  EXPECT_TRUE(scaler.step(one.sgd));
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 1);
  EXPECT_EQ(one.value(), -0.5);
}

TEST(GradScaler, AllRanksDecideAlike) {
  parallel::on_ranks(3, [](collective::Group& group) {
    parallel::DDP<torch::nn::Linear> net(group, torch::nn::Linear(1, 1));
    torch::optim::SGD sgd(net->parameters(), 1);
    GradScaler scaler(Precision::f16);
    const torch::Tensor before = net->weight.detach().clone();
    // Only rank 1 sees a value that is too large.
    const float x = group.rank() == 1 ? std::numeric_limits<float>::max() : 1;
    scaler.scale(net(torch::full({1, 1}, x)).sum() * 2).backward();
    EXPECT_FALSE(scaler.step(sgd));
    scaler.update();
    EXPECT_EQ(scaler.get_scale(), 32768);
    EXPECT_TRUE(torch::equal(net->weight, before));
  });
}

}  // namespace
}  // namespace cohort::train

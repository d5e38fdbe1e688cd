#include "cohort/train/model/losses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort::train {
namespace {

using ::testing::HasSubstr;

TEST(Weight, IsANumberOrATensorOfOne) {
  EXPECT_FALSE(Weight().is_set());
  EXPECT_EQ(Weight(3).number(), 3.0);
  EXPECT_EQ(Weight(torch::tensor({2.5})).number(), 2.5);
  EXPECT_EQ(Weight(torch::ones({2, 2}).eq(1).sum()).number(), 4.0);
}

TEST(Weight, RefusesWhatIsNoWeight) {
  EXPECT_THAT(message_of<InvalidInput>([] { Weight(-1); }),
              HasSubstr("the weight of a loss is -1"));
  EXPECT_THAT(message_of<InvalidInput>([] { Weight(std::nan("")); }), HasSubstr("is nan"));
  EXPECT_THAT(message_of<InvalidInput>([] { Weight(torch::tensor(-2.0)); }), HasSubstr("is -2"));
  EXPECT_THAT(message_of<InvalidInput>([] { Weight(torch::ones({3})); }),
              HasSubstr("a tensor of shape [3], not one number"));
}

TEST(MaskedMean, IsTheMeanOfWhatIsSet) {
  const auto each = torch::tensor({1.0f, 2.0f, 4.0f});
  const Loss loss = masked_mean(each, torch::tensor({true, false, true}));
  EXPECT_FLOAT_EQ(loss.mean.item<float>(), 2.5f);
  EXPECT_EQ(loss.weight.number(), 2.0);
  EXPECT_THAT(message_of<InvalidInput>([&] { masked_mean(each, torch::ones({2})); }),
              HasSubstr("the values are of shape [3], the mask of [2]"));
}

TEST(MaskedMean, OfNothingIsZeroWithGradientsOfZero) {
  auto each = torch::full({2}, std::numeric_limits<float>::infinity()).requires_grad_();
  const Loss loss = masked_mean(each, torch::zeros({2}));
  EXPECT_EQ(loss.mean.item<float>(), 0);
  EXPECT_EQ(loss.weight.number(), 0.0);
  loss.mean.backward();
  EXPECT_TRUE(torch::equal(each.grad(), torch::zeros({2})));
}

TEST(TokenCrossEntropy, CountsTheTargetsThatAreNotIgnored) {
  torch::manual_seed(1);
  const auto logits = torch::randn({2, 3, 5});
  const auto targets = torch::tensor({{1, -100, 4}, {-100, -100, 0}});
  const Loss loss = token_cross_entropy(logits, targets);
  const auto expected =
      torch::cross_entropy_loss(logits.view({-1, 5}), targets.view({-1}), {}, at::Reduction::Mean);
  EXPECT_FLOAT_EQ(loss.mean.item<float>(), expected.item<float>());
  EXPECT_EQ(loss.weight.number(), 3.0);
  const Loss nothing = token_cross_entropy(logits, torch::full({2, 3}, -100));
  EXPECT_EQ(nothing.mean.item<float>(), 0);
  EXPECT_EQ(nothing.weight.number(), 0.0);
  EXPECT_THAT(message_of<InvalidInput>([&] {
                token_cross_entropy(logits, targets.view({3, 2}));
              }),
              HasSubstr("logits of shape [2, 3, 5] do not go with targets of shape [3, 2]"));
}

}  // namespace
}  // namespace cohort::train

#include "cohort/parallel/tensors/matrix_products.h"

#include <ATen/ops/mm_cpu_dispatch.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <limits>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort::parallel {
namespace {

using ::testing::HasSubstr;

class MatrixProductsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(3);
    at::set_num_threads(1);
    try {
      choose_matrix_products(MatrixProducts::onednn);
    } catch (const InvalidInput&) {
      GTEST_SKIP() << "this LibTorch has no oneDNN";
    }
  }
  void TearDown() override { choose_matrix_products(MatrixProducts::torch); }
};

constexpr std::int64_t kRows = 130, kInner = 200, kColumns = 140;  // large enough for oneDNN

// Of `rows` x `columns`, in every way in which a matrix lies in memory.
std::vector<torch::Tensor> layouts(std::int64_t rows, std::int64_t columns) {
  const torch::Tensor wide = torch::randn({rows, 3 * columns});
  return {
      torch::randn({rows, columns}),
      torch::randn({columns, rows}).t(),
      wide.narrow(1, columns, columns),                    // a part of wider rows
      wide.slice(1, 0, 3 * columns, 3),                    // every third column
      torch::randn({1, columns}).expand({rows, columns}),  // the same row again and again
      torch::randn({rows, 1}).expand({rows, columns}),
  };
}

void expect_close(const torch::Tensor& got, const torch::Tensor& exact) {
  ASSERT_EQ(got.sizes(), exact.sizes());
  ASSERT_TRUE(got.is_contiguous());
  const double error = (got.to(torch::kDouble) - exact).abs().max().item<double>();
  EXPECT_LT(error, 1e-4 * std::max(1.0, exact.abs().max().item<double>()));
}

TEST_F(MatrixProductsTest, AreRightHoweverTheMatricesLie) {
  for (const torch::Tensor& a : layouts(kRows, kInner))
    for (const torch::Tensor& b : layouts(kInner, kColumns)) {
      expect_close(torch::mm(a, b), torch::mm(a.to(torch::kDouble), b.to(torch::kDouble)));
      const torch::Tensor bias = torch::randn({kColumns});
      expect_close(
          torch::addmm(bias, a, b),
          torch::addmm(bias.to(torch::kDouble), a.to(torch::kDouble), b.to(torch::kDouble)));
    }
}

TEST_F(MatrixProductsTest, FactorsAndOtherSummandsAreHeeded) {
  const torch::Tensor a = torch::randn({kRows, kInner}), b = torch::randn({kInner, kColumns});
  const torch::Tensor exact = torch::mm(a.to(torch::kDouble), b.to(torch::kDouble));
  const torch::Tensor bias = torch::randn({kColumns}), matrix = torch::randn({kRows, kColumns});
  expect_close(torch::addmm(bias, a, b, 2, 0.5), 2 * bias.to(torch::kDouble) + 0.5 * exact);
  expect_close(torch::addmm(matrix, a, b), matrix.to(torch::kDouble) + exact);
  expect_close(torch::addmm(bias.narrow(0, 0, 1), a, b), bias[0].to(torch::kDouble) + exact);
  expect_close(torch::addmm(torch::full({kColumns}, NAN), a, b, /*beta=*/0), exact);
}

// The kernel is there: the choice changes the rounding, or oneDNN's sum is MKL's to the bit.
TEST_F(MatrixProductsTest, TheChoiceCounts) {
  const torch::Tensor a = torch::randn({512, 512}), b = torch::randn({512, 512});
  const torch::Tensor by_onednn = torch::mm(a, b);
  choose_matrix_products(MatrixProducts::torch);
  const torch::Tensor by_torch = torch::mm(a, b);
  EXPECT_TRUE(torch::equal(by_torch, at::cpu::mm(a, b)));
  EXPECT_FALSE(torch::equal(by_torch, by_onednn));
  choose_matrix_products(MatrixProducts::onednn);
  at::globalContext().setUserEnabledMkldnn(false);
  EXPECT_TRUE(torch::equal(torch::mm(a, b), by_torch));
  at::globalContext().setUserEnabledMkldnn(true);
  EXPECT_TRUE(torch::equal(torch::mm(a, b), by_onednn));
}

TEST_F(MatrixProductsTest, WhatIsNotTheirsGoesToLibTorch) {
  for (const auto type : {torch::kDouble, torch::kBFloat16, torch::kInt64}) {
    const torch::Tensor a = torch::randint(-3, 4, {kRows, kInner}).to(type);
    const torch::Tensor b = torch::randint(-3, 4, {kInner, kColumns}).to(type);
    EXPECT_TRUE(torch::equal(torch::mm(a, b), at::cpu::mm(a, b))) << torch::toString(type);
  }
  const torch::Tensor small = torch::randn({16, 16});
  EXPECT_TRUE(torch::equal(torch::mm(small, small), at::cpu::mm(small, small)));
  EXPECT_EQ(torch::mm(torch::randn({0, 300}), torch::randn({300, 4000})).sizes(),
            (std::vector<std::int64_t>{0, 4000}));
  EXPECT_THROW(torch::mm(torch::randn({300, 300}), torch::randn({200, 300})), c10::Error);
  EXPECT_THROW(torch::addmm(torch::randn({7}), torch::randn({300, 300}), torch::randn({300, 300})),
               c10::Error);
}

TEST_F(MatrixProductsTest, NumbersThatAreNotFiniteStay) {
  torch::Tensor a = torch::randn({kRows, kInner});
  const torch::Tensor b = torch::randn({kInner, kColumns});
  a[3][5] = std::numeric_limits<float>::infinity();
  a[7][2] = std::numeric_limits<float>::quiet_NaN();
  const torch::Tensor finite = torch::mm(a, b).isfinite();
  EXPECT_FALSE(finite[3].any().item<bool>());
  EXPECT_FALSE(finite[7].any().item<bool>());
  EXPECT_EQ(finite.sum().item<std::int64_t>(), (kRows - 2) * kColumns);
}

// Gradients of layers, with and without a bias, of batches with one dimension and with two.
TEST_F(MatrixProductsTest, LayersTrainAsBefore) {
  for (const bool with_bias : {true, false})
    for (const auto& shape :
         std::vector<std::vector<std::int64_t>>{{kRows, kInner}, {5, 40, kInner}}) {
      torch::nn::Linear layer(torch::nn::LinearOptions(kInner, kColumns).bias(with_bias));
      torch::nn::Linear exact(torch::nn::LinearOptions(kInner, kColumns).bias(with_bias));
      exact->to(torch::kDouble);
      const torch::NoGradGuard copying;
      exact->weight.copy_(layer->weight);
      if (with_bias) exact->bias.copy_(layer->bias);
      const torch::AutoGradMode training(true);
      const torch::Tensor x = torch::randn(shape).set_requires_grad(true);
      const torch::Tensor exact_x = x.detach().to(torch::kDouble).set_requires_grad(true);
      layer->forward(x).square().mean().backward();
      exact->forward(exact_x).square().mean().backward();
      expect_close(x.grad(), exact_x.grad());
      expect_close(layer->weight.grad(), exact->weight.grad());
      if (with_bias) expect_close(layer->bias.grad(), exact->bias.grad());
    }
}

TEST_F(MatrixProductsTest, TheSameProductHasTheSameBits) {
  const torch::Tensor a = torch::randn({kRows, kInner}), b = torch::randn({kInner, kColumns});
  const torch::Tensor first = torch::mm(a, b);
  for (int i = 0; i < 20; ++i) {
    const torch::Tensor moved =
        torch::empty({kRows * kInner + 17}).narrow(0, i % 17, kRows * kInner);
    EXPECT_TRUE(torch::equal(torch::mm(moved.view({kRows, kInner}).copy_(a), b), first)) << i;
  }
}

TEST(MatrixProductsChoiceTest, HasWords) {
  for (const auto products :
       {MatrixProducts::automatic, MatrixProducts::torch, MatrixProducts::onednn})
    EXPECT_EQ(parse_matrix_products(to_string(products)), products);
  EXPECT_THAT(message_of<InvalidInput>([] { parse_matrix_products("mkl"); }),
              HasSubstr("must be auto, torch or onednn, got 'mkl'"));
  EXPECT_NE(choose_matrix_products(MatrixProducts::automatic), MatrixProducts::automatic);
  EXPECT_EQ(choose_matrix_products(MatrixProducts::torch), MatrixProducts::torch);
}

}  // namespace
}  // namespace cohort::parallel

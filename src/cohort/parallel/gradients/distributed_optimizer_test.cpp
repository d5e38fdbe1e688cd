#include "cohort/parallel/gradients/distributed_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/parallel/tensors/on_ranks_test.h"

namespace cohort::parallel {
namespace {

using collective::Group;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kSteps = 4;
constexpr int kBatch = 12;  // samples of all ranks together

// Everything below draws no random numbers: ranks are threads that share the generator.
torch::Tensor pattern(c10::IntArrayRef shape, double phase) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return torch::arange(count, torch::kDouble).mul(0.37).add(phase).sin().reshape(shape);
}

struct Net : torch::nn::Module {
  Net() {
    register_module("first", first);
    register_module("last", last);
    to(torch::kDouble);
    const torch::NoGradGuard no_grad;
    double phase = 0;
    for (auto& parameter : parameters())
      parameter.copy_(pattern(parameter.sizes(), phase += 1) * 0.5);
  }
  torch::Tensor forward(const torch::Tensor& x) { return last(torch::tanh(first(x))); }
  torch::nn::Linear first{5, 7};
  torch::nn::Linear last{7, 2};
};

torch::Tensor loss_of(Net& net, int step, int first, int count) {
  const torch::Tensor x = pattern({kBatch, 5}, 10 + step).slice(0, first, first + count);
  const torch::Tensor y = pattern({kBatch, 2}, 20 + step).slice(0, first, first + count);
  return torch::mse_loss(net.forward(x), y);
}

torch::optim::SGD make_sgd(Net& net) {
  return torch::optim::SGD(net.parameters(), torch::optim::SGDOptions(0.2).momentum(0.9));
}

// What one process that sees the whole batch gets.
std::vector<torch::Tensor> train_alone() {
  Net net;
  auto sgd = make_sgd(net);
  for (int step = 0; step < kSteps; ++step) {
    sgd.zero_grad();
    loss_of(net, step, 0, kBatch).backward();
    sgd.step();
  }
  return net.parameters();
}

void expect_close(const std::vector<torch::Tensor>& found,
                  const std::vector<torch::Tensor>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(torch::allclose(found[i], expected[i], tolerance, tolerance)) << i;
}

// `net` has made one step of plain SGD, with rate 1, on the whole first batch.
void expect_one_plain_step(Net& net) {
  Net alone;
  torch::optim::SGD sgd(alone.parameters(), 1.0);
  loss_of(alone, 0, 0, kBatch).backward();
  sgd.step();
  expect_close(net.parameters(), alone.parameters(), 1e-12);
}

// Ranks with a part of the batch each, under `options`.
void expect_same_training(int ranks, const DistributedOptimizerOptions& options,
                          double tolerance = 1e-12) {
  const auto expected = train_alone();
  on_ranks(ranks, [&](Group& group) {
    Net net;
    auto sgd = make_sgd(net);
    DistributedOptimizer optimizer(group, sgd, options);
    const int share = kBatch / ranks / options.backward_passes_per_step;
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      for (int pass = 0; pass < options.backward_passes_per_step; ++pass) {
        const int part = group.rank() * options.backward_passes_per_step + pass;
        torch::Tensor loss = loss_of(net, step, part * share, share);
        if (!options.average) loss = loss / ranks;
        (loss / options.backward_passes_per_step).backward();
      }
      optimizer.step();
    }
    expect_close(net.parameters(), expected, tolerance);
  });
}

TEST(DistributedOptimizer, TrainsAsOneProcessOnTheUnionOfTheBatches) {
  for (const int ranks : {1, 2, 3}) expect_same_training(ranks, {});
}
TEST(DistributedOptimizer, ManySmallBucketsChangeNothing) {
  expect_same_training(3, {.bucket_bytes = 64});
}
TEST(DistributedOptimizer, SumsWhereAsked) { expect_same_training(3, {.average = false}); }
TEST(DistributedOptimizer, SeveralBackwardsMakeOneStep) {
  expect_same_training(2, {.backward_passes_per_step = 3});
  expect_same_training(1, {.backward_passes_per_step = 3});
}
TEST(DistributedOptimizer, PredividingGivesTheSameAverage) {
  expect_same_training(3, {.gradient_predivide_factor = 3});
}
TEST(DistributedOptimizer, CompressionRoundsAndNoMore) {
  for (const double factor : {1.0, 2.0}) {
    expect_same_training(2, {.compression = Compression::f16, .gradient_predivide_factor = factor},
                         3e-3);
    expect_same_training(2, {.compression = Compression::bf16, .gradient_predivide_factor = factor},
                         3e-2);
  }
}

TEST(DistributedOptimizer, GradientsCanBeChangedBetweenSynchronizeAndStep) {
  on_ranks(2, [](Group& group) {
    Net net;
    torch::optim::SGD sgd(net.parameters(), 1.0);
    DistributedOptimizer optimizer(group, sgd);
    loss_of(net, 0, group.rank() * 6, 6).backward();
    optimizer.synchronize();
    for (auto& parameter : net.parameters()) parameter.mutable_grad().fill_(0.25);
    {
      auto skip = optimizer.skip_synchronize();
      optimizer.step();
    }
    expect_close({net.parameters()[0].detach()}, {Net().parameters()[0].detach() - 0.25}, 1e-12);
    loss_of(net, 1, group.rank() * 6, 6).backward();
    optimizer.synchronize();
    optimizer.step();  // without the scope: it knows
  });
}

// As DDP's users write it; also beside buckets that are still on their way when backward ends.
TEST(DistributedOptimizer, GradientsAreFinalWhenBackwardReturns) {
  constexpr double kNorm = 0.05;
  Net alone;
  auto other = make_sgd(alone);
  for (int step = 0; step < kSteps; ++step) {
    other.zero_grad();
    loss_of(alone, step, 0, kBatch).backward();
    torch::nn::utils::clip_grad_norm_(alone.parameters(), kNorm);
    other.step();
  }
  for (const int ranks : {1, 2, 3})
    for (const int passes : {1, 2})
      on_ranks(ranks, [&](Group& group) {
        Net net;
        auto sgd = make_sgd(net);
        DistributedOptimizer optimizer(group, sgd,
                                       {.backward_passes_per_step = passes, .bucket_bytes = 64});
        const int share = kBatch / ranks / passes;
        for (int step = 0; step < kSteps; ++step) {
          optimizer.zero_grad();
          for (int pass = 0; pass < passes; ++pass)
            (loss_of(net, step, (group.rank() * passes + pass) * share, share) / passes).backward();
          torch::nn::utils::clip_grad_norm_(net.parameters(), kNorm);
          optimizer.step();
        }
        expect_close(net.parameters(), alone.parameters(), 1e-9);
      });
}

// Ranks as threads of this process: they share the GPU's one autograd thread.
TEST(DistributedOptimizer, RanksThatShareAGpuInOneProcessSynchronizeByThemselves) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU here";
  const auto train = [](int ranks) {
    std::vector<torch::Tensor> result;
    on_ranks(ranks, [&](Group& group) {
      Net net;
      net.to(torch::kCUDA);
      auto sgd = make_sgd(net);
      DistributedOptimizer optimizer(group, sgd, {.bucket_bytes = 64});
      const int share = kBatch / ranks;
      for (int step = 0; step < kSteps; ++step) {
        optimizer.zero_grad();
        const torch::Tensor x = pattern({kBatch, 5}, 10 + step).to(torch::kCUDA);
        const torch::Tensor y = pattern({kBatch, 2}, 20 + step).to(torch::kCUDA);
        const int first = group.rank() * share;
        torch::mse_loss(net.forward(x.slice(0, first, first + share)),
                        y.slice(0, first, first + share))
            .backward();
        optimizer.synchronize();
        torch::nn::utils::clip_grad_norm_(net.parameters(), 0.05);
        optimizer.step();
      }
      if (group.rank() == 0) result = net.parameters();
    });
    return result;
  };
  expect_close(train(2), train(1), 1e-9);
}

TEST(DistributedOptimizer, GradientsThatWereChangedBeforeTheyWereAveragedAreRefused) {
  on_ranks(2, [](Group& group) {
    Net net;
    auto sgd = make_sgd(net);
    DistributedOptimizer optimizer(group, sgd, {.backward_passes_per_step = 2});
    loss_of(net, 0, group.rank() * 6, 6).backward();
    torch::nn::utils::clip_grad_norm_(net.parameters(), 0.05);
    EXPECT_THAT(message_of<InvalidInput>([&] { optimizer.step(); }),
                AllOf(HasSubstr("changed after 1 of 2 backward passes"),
                      HasSubstr("Call synchronize() first")));
    EXPECT_THAT(message_of<InvalidInput>([&] {
                  auto skip = optimizer.skip_synchronize();
                  optimizer.step();
                }),
                HasSubstr("this rank alone"));
    optimizer.synchronize();
    optimizer.step();
  });
}

// One loss that passes through both, as a generator's passes through its discriminator.
enum class GivingUp { zero_grad, module_zero_grad, discard, pause };

void train_pair(Group& group, GivingUp how, std::vector<torch::Tensor>& result) {
  Net generator, judge;
  torch::nn::Linear bridge(torch::nn::LinearOptions(2, 5).bias(false));
  bridge->to(torch::kDouble);
  {
    const torch::NoGradGuard no_grad;
    bridge->weight.copy_(pattern({5, 2}, 3));
  }
  auto g_sgd = make_sgd(generator), d_sgd = make_sgd(judge);
  DistributedOptimizer g(group, g_sgd), d(group, d_sgd);
  const int share = kBatch / group.size();
  for (int step = 0; step < kSteps; ++step) {
    if (how == GivingUp::module_zero_grad)
      judge.zero_grad();
    else if (how != GivingUp::discard)
      d.zero_grad();
    loss_of(judge, step, group.rank() * share, share).backward();
    d.step();
    g.zero_grad();
    const torch::Tensor x =
        pattern({kBatch, 5}, 30 + step).slice(0, group.rank() * share, (group.rank() + 1) * share);
    const torch::Tensor loss = judge.forward(bridge(generator.forward(x))).pow(2).mean();
    if (how == GivingUp::pause) {
      const auto pause = d.pause();
      loss.backward();
    } else {
      loss.backward();
    }
    g.step();
    if (how == GivingUp::discard) d.discard();
  }
  result = generator.parameters();
  for (const auto& parameter : judge.parameters()) result.push_back(parameter);
}

TEST(DistributedOptimizer, GradientsThatNoStepWantsAreGivenUp) {
  std::vector<torch::Tensor> expected;
  on_ranks(1, [&](Group& group) { train_pair(group, GivingUp::zero_grad, expected); });
  for (const auto how :
       {GivingUp::zero_grad, GivingUp::module_zero_grad, GivingUp::discard, GivingUp::pause})
    on_ranks(2, [&](Group& group) {
      std::vector<torch::Tensor> found;
      train_pair(group, how, found);
      expect_close(found, expected, 1e-12);
    });
}

TEST(DistributedOptimizer, AnAccumulationCanBeGivenUp) {
  on_ranks(2, [](Group& group) {
    Net net;
    torch::optim::SGD sgd(net.parameters(), 1.0);
    DistributedOptimizer optimizer(group, sgd, {.backward_passes_per_step = 2});
    loss_of(net, 3, group.rank() * 6, 6).backward();
    optimizer.zero_grad();
    for (int pass = 0; pass < 2; ++pass)
      (loss_of(net, 0, (group.rank() * 2 + pass) * 3, 3) / 2).backward();
    optimizer.step();
    expect_one_plain_step(net);
  });
}

TEST(DistributedOptimizer, RanksThatStartWithDifferentWeightsAreNamed) {
  on_ranks(3, [](Group& group) {
    Net net;
    if (group.rank() == 2) {
      const torch::NoGradGuard no_grad;
      net.last->weight.add_(1e-9);
    }
    auto sgd = make_sgd(net);
    NamedTensors names;
    for (const auto& item : net.named_parameters()) names.emplace_back(item.key(), item.value());
    DistributedOptimizer optimizer(group, sgd, {.named_parameters = names});
    const torch::Tensor loss = loss_of(net, 0, group.rank() * 4, 4);
    EXPECT_THAT(message_of<InvalidInput>([&] { loss.backward(); }),
                AllOf(HasSubstr("ranks 0 and 2"), HasSubstr("last.weight"),
                      HasSubstr("broadcast_parameters")));
  });
}

TEST(DistributedOptimizer, TheRestOfAnEpochMayHaveFewerBackwards) {
  on_ranks(2, [](Group& group) {
    Net net;
    torch::optim::SGD sgd(net.parameters(), 1.0);
    DistributedOptimizer optimizer(group, sgd, {.backward_passes_per_step = 2});
    loss_of(net, 0, group.rank() * 6, 6).backward();
    optimizer.step();
    expect_one_plain_step(net);
  });
}

TEST(DistributedOptimizer, AClosuresGradientsAreAveraged) {
  const auto expected = train_alone();
  on_ranks(2, [&](Group& group) {
    Net net;
    auto sgd = make_sgd(net);
    DistributedOptimizer optimizer(group, sgd);
    for (int step = 0; step < kSteps; ++step) {
      const torch::Tensor loss = optimizer.step([&] {
        optimizer.zero_grad();
        torch::Tensor loss = loss_of(net, step, group.rank() * 6, 6);
        loss.backward();
        return loss;
      });
      EXPECT_TRUE(loss.defined());
    }
    expect_close(net.parameters(), expected, 1e-12);
  });
}

TEST(DistributedOptimizer, RanksThatRunOutOfDataJoin) {
  on_ranks(3, [](Group& group) {
    Net net;
    auto sgd = make_sgd(net);
    DistributedOptimizer optimizer(group, sgd, {.uneven_data = true});
    for (int step = 0; step <= group.rank(); ++step) {  // rank 0 has one batch, rank 2 three
      optimizer.zero_grad();
      loss_of(net, step, group.rank() * 4, 4).backward();
      optimizer.step();
    }
    optimizer.join(Deadline::after(std::chrono::seconds(30)));

    Net alone;
    auto other = make_sgd(alone);
    for (int step = 0; step < 3; ++step) {
      other.zero_grad();
      for (int rank = step; rank < 3; ++rank) (loss_of(alone, step, rank * 4, 4) / 3).backward();
      other.step();
    }
    expect_close(net.parameters(), alone.parameters(), 1e-12);
  });
}

TEST(DistributedOptimizer, TrainingGoesOnAfterAJoin) {
  // At first rank 0 has no data at all, then the most.
  const auto batches = [](int epoch, int rank) { return epoch == 0 ? rank : 3 - rank; };
  for (const std::size_t bucket_bytes : {std::size_t{64}, std::size_t{1} << 20})
    on_ranks(3, [&](Group& group) {
      Net net;
      auto sgd = make_sgd(net);
      DistributedOptimizer optimizer(group, sgd,
                                     {.uneven_data = true, .bucket_bytes = bucket_bytes});
      Net alone;
      auto other = make_sgd(alone);
      for (int epoch = 0; epoch < 2; ++epoch) {
        for (int step = 0; step < batches(epoch, group.rank()); ++step) {
          optimizer.zero_grad();
          loss_of(net, step, group.rank() * 4, 4).backward();
          optimizer.step();
        }
        optimizer.join(Deadline::after(std::chrono::seconds(30)));

        for (int step = 0; step < 2 + epoch; ++step) {
          other.zero_grad();
          for (int rank = 0; rank < 3; ++rank)
            if (step < batches(epoch, rank)) (loss_of(alone, step, rank * 4, 4) / 3).backward();
          other.step();
        }
        expect_close(net.parameters(), alone.parameters(), 1e-12);
      }
    });
}

TEST(DistributedOptimizer, CallsOutOfTurnAreExplained) {
  on_ranks(1, [](Group& group) {
    Net net;
    auto sgd = make_sgd(net);
    DistributedOptimizer optimizer(group, sgd);
    const auto backward = [&] { loss_of(net, 0, 0, 12).backward(); };
    const std::string no_backward = message_of<InvalidInput>([&] { optimizer.step(); });
    EXPECT_THAT(no_backward, HasSubstr("step() without a backward()"));
    EXPECT_THAT(message_of<InvalidInput>([&] { optimizer.synchronize(); }),
                HasSubstr("without a backward()"));
    backward();
    EXPECT_THAT(message_of<std::exception>(backward),
                AllOf(HasSubstr("backward() was called 2 times"),
                      HasSubstr("backward_passes_per_step is 1")));
    EXPECT_THAT(message_of<InvalidInput>([&] { optimizer.join(); }), HasSubstr("uneven_data"));
    optimizer.step();
    EXPECT_THAT(message_of<InvalidInput>([&] { optimizer.step(); }),
                HasSubstr("step() without a backward() since the last step()"));
  });
}

TEST(DistributedOptimizer, OptionsThatCannotBeAreNamed) {
  on_ranks(1, [](Group& group) {
    Net net;
    auto sgd = make_sgd(net);
    const auto refusal = [&](DistributedOptimizerOptions options) {
      return message_of<InvalidInput>([&] { DistributedOptimizer(group, sgd, options); });
    };
    EXPECT_THAT(refusal({.backward_passes_per_step = 0}),
                HasSubstr("backward_passes_per_step is 0"));
    EXPECT_THAT(refusal({.gradient_predivide_factor = -1}), HasSubstr("is -1"));
    EXPECT_THAT(refusal({.average = false, .gradient_predivide_factor = 2}),
                HasSubstr("for averages"));
  });
}

TEST(DistributedOptimizer, AParameterWithoutAGradientIsNamed) {
  on_ranks(2, [](Group& group) {
    Net net;
    auto sgd = make_sgd(net);
    NamedTensors names;
    for (const auto& item : net.named_parameters()) names.emplace_back(item.key(), item.value());
    DistributedOptimizer optimizer(group, sgd, {.named_parameters = names});
    const torch::Tensor loss = net.first(pattern({2, 5}, 0)).sum();
    // Both ranks leave it out, so each finds it by itself or reads it from the other.
    EXPECT_THAT(message_of<Error>([&] { loss.backward(); }), HasSubstr("last.weight"));
  });
}

TEST(DistributedOptimizer, ASparseGradientIsSentDenseWhereAsked) {
  for (const int passes : {1, 2})
    on_ranks(2, [passes](Group& group) {
      torch::nn::Embedding table(torch::nn::EmbeddingOptions(4, 2).sparse(true));
      {
        const torch::NoGradGuard no_grad;
        table->weight.zero_();
      }
      torch::optim::SGD sgd(table->parameters(), 1.0);
      DistributedOptimizer optimizer(group, sgd,
                                     {.backward_passes_per_step = passes, .sparse_as_dense = true});
      for (int pass = 0; pass < passes; ++pass)
        (table->forward(torch::tensor({std::int64_t{group.rank()}})).sum() / passes).backward();
      optimizer.step();
      const torch::Tensor rows = table->weight.detach().sum(1);
      EXPECT_TRUE(torch::allclose(rows, torch::tensor({-1.0f, -1.0f, 0.0f, 0.0f}))) << rows;
    });
}

}  // namespace
}  // namespace cohort::parallel

// The models of examples/: that attention is what it should be, and that the gradient of a step is
// the one of a single process on the whole batch, at any number of replicas.
#include <cohort/cohort.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <span>

#include "examples/gan/gan.h"
#include "examples/gpt/attention.h"
#include "examples/gpt/gpt_model.h"
#include "examples/gpt/sampling.h"
#include "examples/multi_input/offers.h"
#include "examples/resnet_cifar/resnet.h"

namespace {

using cohort::Batch;
using examples::GptOptions;
using torch::Tensor;

const GptOptions kTiny{
    .layers = 2, .heads = 2, .width = 16, .sequence = 12, .vocabulary = 20, .dropout = 0};

std::vector<Tensor> values_of(torch::nn::Module& module) {
  std::vector<Tensor> values;
  for (const auto& parameter : module.parameters()) values.push_back(parameter.detach().clone());
  return values;
}

// With plain SGD at rate 1 one step takes the gradient away from the weights.
std::shared_ptr<torch::optim::SGD> unit_sgd(const std::vector<Tensor>& parameters) {
  return std::make_shared<torch::optim::SGD>(parameters, torch::optim::SGDOptions(1.0));
}

// All samples as one batch, as a data set.
template <typename B>
class WholeBatch : public cohort::DatasetOf<B> {
 public:
  explicit WholeBatch(B all) : all_(std::move(all)) {}
  std::int64_t size() const override { return cohort::train::AnyBatch(all_).size(); }
  B get(std::span<const std::int64_t> indices, const cohort::DrawKey&) const override {
    const auto where = torch::tensor(std::vector<std::int64_t>(indices.begin(), indices.end()));
    return cohort::train::map_tensors(
        all_, [&](const Tensor& tensor) { return tensor.index_select(0, where); });
  }

 private:
  B all_;
};

// Trains one step with 1, 2 and 3 replicas; `expected` makes the same from a model of the same
// start without Cohort.
template <typename Net, typename B>
void expect_the_gradient_of_one_process(
    const std::function<Net()>& make, const B& all,
    const std::function<std::vector<cohort::Phase>(Net&)>& phases,
    const std::function<void(Net&)>& expected, const std::vector<int>& jobs = {1, 2, 3}) {
  Net alone = make();
  const std::vector<Tensor> before = values_of(*alone);
  expected(alone);
  const std::vector<Tensor> after = values_of(*alone);
  for (int replicas : jobs) {
    SCOPED_TRACE(replicas);
    auto context = cohort::init(
        cohort::cluster::Environment{},
        {"--distribution_strategy=mirrored", "--num_replicas=" + std::to_string(replicas)});
    Net net = make();
    const std::int64_t samples = cohort::train::AnyBatch(all).size();
    cohort::Trainer trainer(context.strategy(), net, phases(net),
                            {.batch_size = samples, .virtual_shards = 5, .accumulate = 2});
    trainer.fit(std::make_shared<WholeBatch<B>>(all),
                {.epochs = 1, .shuffle = false, .progress = false});
    const std::vector<Tensor> got = values_of(*net);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Tensor wanted = before[i] - after[i];
      EXPECT_GT(wanted.abs().max().item<double>(), 0) << net->named_parameters().keys()[i];
      EXPECT_TRUE(torch::allclose(before[i] - got[i], wanted, 1e-3, 2e-6))
          << net->named_parameters().keys()[i];
    }
    context.leave();
  }
}

TEST(Attention, IsThatOfThePlainFormula) {
  torch::manual_seed(1);
  for (const auto tokens : {1, 7, 65}) {
    const auto query = torch::randn({2, 3, tokens, 8}), key = torch::randn({2, 3, tokens, 8}),
               value = torch::randn({2, 3, tokens, 8});
    EXPECT_TRUE(torch::allclose(examples::causal_attention(query, key, value, 0),
                                examples::plain_attention(query, key, value, 0), 1e-4, 1e-5))
        << tokens;
  }
}

TEST(Attention, HasTheSameBitsWithAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  for (const double dropout : {0.0, 0.2}) {
    std::vector<Tensor> first;
    for (const int threads : {1, 2, 3}) {
      at::set_num_threads(threads);
      torch::manual_seed(1);
      auto all = torch::randn({3, 2, 4, 96, 16}).requires_grad_();
      const auto seen = examples::causal_attention(all[0], all[1], all[2], dropout);
      seen.square().sum().backward();
      if (first.empty())
        first = {seen, all.grad()};
      else
        EXPECT_TRUE(torch::equal(seen, first[0]) && torch::equal(all.grad(), first[1]))
            << threads << " threads, dropout " << dropout;
    }
  }
  at::set_num_threads(before);
}

TEST(Gpt, SeesNoTokenAfterItsOwn) {
  torch::manual_seed(1);
  examples::Gpt net(kTiny);
  auto ids = torch::randint(20, {1, 12}, torch::kInt64);
  const auto before = net->forward(ids);
  ids[0][8] = (ids[0][8] + 1) % 20;
  const auto after = net->forward(ids);
  EXPECT_TRUE(torch::allclose(before.narrow(1, 0, 8), after.narrow(1, 0, 8)));
  EXPECT_FALSE(torch::allclose(before.narrow(1, 8, 4), after.narrow(1, 8, 4)));
}

TEST(Gpt, HasTheParametersThatItsSizesSay) {
  for (const auto& [name, least, most] : {std::tuple("1M", 0.8e6, 1.2e6), {"6M", 5.8e6, 6.3e6}}) {
    const auto count =
        static_cast<double>(examples::Gpt(examples::gpt_preset(name))->parameter_count());
    EXPECT_GE(count, least) << name;
    EXPECT_LE(count, most) << name;
  }
}

TEST(Gpt, DecaysMatricesAlone) {
  examples::Gpt net(kTiny);
  const auto optimizer = examples::make_adamw(*net, 0.1, 0.3);
  for (const auto& group : optimizer->param_groups()) {
    const auto decay =
        static_cast<const torch::optim::AdamWOptions&>(group.options()).weight_decay();
    for (const auto& parameter : group.params()) EXPECT_EQ(decay, parameter.dim() >= 2 ? 0.3 : 0);
  }
}

TEST(Sampling, IsDrawnFromItsSeedAlone) {
  at::set_num_threads(1);  // of many small operations
  torch::manual_seed(1);
  examples::Gpt net(kTiny);
  const auto text = examples::sample(net, {1, 2}, {.tokens = 10, .temperature = 2, .top_k = 0});
  torch::rand({3});
  EXPECT_EQ(text, examples::sample(net, {1, 2}, {.tokens = 10, .temperature = 2, .top_k = 0}));
  EXPECT_NE(text,
            examples::sample(net, {1, 2}, {.tokens = 10, .temperature = 2, .top_k = 0, .seed = 2}));
  EXPECT_EQ(examples::sample(net, {1, 2}, {.tokens = 10, .temperature = 0}),
            examples::sample(net, {1, 2}, {.tokens = 10, .temperature = 3, .top_k = 1}));
}

// Rows have different numbers of tokens that count: means of shards are not the mean of the whole.
TEST(Gradient, OfTheGptIsThatOfOneProcess) {
  torch::manual_seed(1);
  auto data = torch::randint(20, {11, 12}, torch::kInt64);
  auto target = torch::randint(20, {11, 12}, torch::kInt64);
  target.masked_fill_(torch::arange(12) > torch::arange(11).unsqueeze(1), -100);
  const auto step = [](examples::Gpt& net, const Batch& batch) {
    return cohort::token_cross_entropy(net->forward(batch.data), batch.target);
  };
  expect_the_gradient_of_one_process<examples::Gpt, Batch>(
      [] {
        torch::manual_seed(2);
        return examples::Gpt(kTiny);
      },
      {data, target},
      [&](examples::Gpt& net) {
        return std::vector<cohort::Phase>{{"", unit_sgd(net->parameters()), step}};
      },
      [&](examples::Gpt& net) {
        auto optimizer = unit_sgd(net->parameters());
        torch::nn::functional::cross_entropy(net->forward(data).flatten(0, 1), target.flatten())
            .backward();
        optimizer->step();
      });
}

// One tensor under two names, which LibTorch's parameters() then lists twice.
struct TiedImpl : torch::nn::Cloneable<TiedImpl> {
  TiedImpl() { reset(); }
  void reset() override {
    table = register_module("table", torch::nn::Embedding(20, 6));
    head = register_parameter("head", table->weight);
  }
  Tensor forward(const Tensor& ids) {
    return torch::nn::functional::linear(table(ids).tanh(), head);
  }
  torch::nn::Embedding table{nullptr};
  Tensor head;
};
TORCH_MODULE(Tied);

TEST(Gradient, OfATensorWithTwoNamesIsThatOfOneProcess) {
  torch::manual_seed(1);
  const Batch all{torch::randint(20, {11, 5}, torch::kInt64),
                  torch::randint(20, {11, 5}, torch::kInt64)};
  const auto step = [](Tied& net, const Batch& batch) {
    return cohort::token_cross_entropy(net->forward(batch.data), batch.target);
  };
  expect_the_gradient_of_one_process<Tied, Batch>(
      [] {
        torch::manual_seed(2);
        return Tied();
      },
      all,
      [&](Tied& net) {
        return std::vector<cohort::Phase>{{"", unit_sgd({net->head}), step}};
      },
      [&](Tied& net) {
        step(net, all).mean.backward();
        unit_sgd({net->head})->step();
      },
      /*jobs=*/{1});
}

TEST(Gradient, OfATensorWithTwoNamesIsNotSplitAmongReplicasOfAProcess) {
  auto context = cohort::init(cohort::cluster::Environment{},
                              {"--distribution_strategy=mirrored", "--num_replicas=2"});
  Tied net;
  const Batch all{torch::zeros({4, 5}, torch::kInt64), torch::zeros({4, 5}, torch::kInt64)};
  const auto step = [](Tied& tied, const Batch& batch) {
    return cohort::token_cross_entropy(tied->forward(batch.data), batch.target);
  };
  const auto train = [&](const cohort::Model& model) {
    cohort::Trainer trainer(context.strategy(), model, unit_sgd({net->head}), step,
                            {.batch_size = 4});
    trainer.fit(std::make_shared<WholeBatch<Batch>>(all), {.epochs = 1, .progress = false});
  };
  try {
    train(net);
    FAIL() << "not refused";
  } catch (const cohort::InvalidInput& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("one tensor as 'head' and 'table.weight'"));
  }
}

TEST(Optimizer, ThatWouldUpdateATiedTensorTwiceIsRefused) {
  auto context = cohort::init(cohort::cluster::Environment{}, {});
  Tied net;
  try {
    cohort::Trainer trainer(context.strategy(), net, unit_sgd(net->parameters()),
                            cohort::cross_entropy);
    FAIL() << "not refused";
  } catch (const cohort::InvalidInput& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("1 of its 2 parameters twice"));
  }
  context.leave();
}

struct NoisyPoints {
  Tensor real, noise, more_noise;
};

TEST(Gradient, OfTheGanIsThatOfOneProcess) {
  torch::manual_seed(1);
  const NoisyPoints all{torch::randn({17, 2}), torch::randn({17, examples::kNoise}),
                        torch::randn({17, examples::kNoise})};
  const auto train_discriminator = [](examples::Gan& net, const NoisyPoints& batch) {
    return examples::discriminator_loss(net, batch.real, batch.noise);
  };
  const auto train_generator = [](examples::Gan& net, const NoisyPoints& batch) {
    return examples::generator_loss(net, batch.more_noise);
  };
  expect_the_gradient_of_one_process<examples::Gan, NoisyPoints>(
      [] {
        torch::manual_seed(2);
        return examples::Gan();
      },
      all,
      [&](examples::Gan& net) {
        return std::vector<cohort::Phase>{
            {"discriminator", unit_sgd(net->discriminator->parameters()), train_discriminator},
            {"generator", unit_sgd(net->generator->parameters()), train_generator}};
      },
      [&](examples::Gan& net) {
        auto first = unit_sgd(net->discriminator->parameters());
        train_discriminator(net, all).backward();
        first->step();
        net->zero_grad();
        auto second = unit_sgd(net->generator->parameters());
        train_generator(net, all).backward();
        second->step();
      });
}

TEST(Gradient, OfSeveralInputsIsThatOfOneProcess) {
  const examples::Offers all = examples::MadeUpOffers(23, 4).get(
      [] {
        std::vector<std::int64_t> indices(23);
        for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::int64_t>(i);
        return indices;
      }(),
      {});
  expect_the_gradient_of_one_process<examples::OfferNet, examples::Offers>(
      [] {
        torch::manual_seed(2);
        return examples::OfferNet();
      },
      all,
      [&](examples::OfferNet& net) {
        return std::vector<cohort::Phase>{{"", unit_sgd(net->parameters()), examples::offer_loss}};
      },
      [&](examples::OfferNet& net) {
        auto optimizer = unit_sgd(net->parameters());
        examples::offer_loss(net, all).mean.backward();
        optimizer->step();
      });
}

}  // namespace

// Predicts clicks from the embeddings of users and items: matrix factorisation with a small network
// beside it, on data made up from a seed. The tables live on parameter servers, or here where there
// are none.
//
//   build/bin/recommender                                            alone
//   build/bin/cohort run -n 2 --ps 2 -- build/bin/recommender --distribution_strategy
//   parameter_server
//
// A table larger than one server's memory limit:
//
//   build/bin/cohort run -n 1 --ps 1 -- build/bin/recommender --distribution_strategy
//   parameter_server
//       --users 100000 --dimension 64 --ps_memory_limit 40000000    ends with a sentence that says
//       so
//   ... the same with --ps 2                                         trains
#include <cohort/cohort.h>
#include <fmt/core.h>

#include <cstdio>

#include "../common/train_flags.h"
#include "clicks.h"

namespace {

struct ModelFlags {
  int dimension = 16;
  int admit_after = 1;
  std::uint64_t keep_for = 0;
  double table_learning_rate = 0.2;
};

struct RecommenderImpl : torch::nn::Module {
  explicit RecommenderImpl(const ModelFlags& flags)
      : users(register_module("users", table(flags))),
        items(register_module("items", table(flags))),
        hidden(register_module("hidden", torch::nn::Linear(2 * flags.dimension, 32))),
        output(register_module("output", torch::nn::Linear(32, 1))) {}

  // A rating for each pair of keys; positive: a click is likely.
  torch::Tensor forward(const torch::Tensor& keys) {
    const torch::Tensor user = users(keys.select(1, 0));
    const torch::Tensor item = items(keys.select(1, 1));
    const torch::Tensor beside = output(torch::relu(hidden(torch::cat({user, item}, 1))));
    return (user * item).sum(1) + beside.squeeze(1);
  }

  static cohort::ShardedEmbedding table(const ModelFlags& flags) {
    return cohort::ShardedEmbedding(cohort::ShardedEmbeddingOptions{
        .dimension = flags.dimension,
        .admit_after = flags.admit_after,
        .keep_for = flags.keep_for,
        .initial_scale = 0.1,
        .rule = {.kind = cohort::ps::UpdateRule::Kind::adagrad, .lr = flags.table_learning_rate}});
  }

  cohort::ShardedEmbedding users, items;
  torch::nn::Linear hidden, output;
};
TORCH_MODULE(Recommender);

torch::Tensor click_loss(const torch::Tensor& ratings, const torch::Tensor& clicked) {
  return torch::binary_cross_entropy_with_logits(ratings, clicked);
}

cohort::Metric right_guesses() {
  return {"accuracy", [](const torch::Tensor& ratings, const torch::Tensor& clicked) {
            return ratings.gt(0).eq(clicked.gt(0.5)).sum();
          }};
}

void describe(const char* name, std::int64_t keys, int dimension) {
  // Values and Adagrad's sums, and what a server keeps of each row besides.
  const double bytes = static_cast<double>(keys) * (2.0 * dimension * sizeof(float) + 24);
  fmt::print("table {}: up to {} rows of {} floats, {:.1f} MB with optimizer state\n", name, keys,
             dimension, bytes / 1e6);
}

int train(int argc, char** argv) {
  auto context = cohort::init(argc, argv);
  if (context.is_service()) return context.serve();

  examples::TrainFlags flags{.batch_size = 1024, .train_epochs = 3, .learning_rate = 0.05};
  examples::Clicks::Options data;
  ModelFlags model;
  CLI::App app("Predicts clicks from embeddings of users and items.", "recommender");
  flags.declare(app);
  app.add_option("--users", data.users, "users there are")->capture_default_str();
  app.add_option("--items", data.items, "items there are")->capture_default_str();
  app.add_option("--samples", data.samples, "to train on; a tenth as many to test")
      ->capture_default_str();
  app.add_option("--dimension", model.dimension, "floats a row")->capture_default_str();
  app.add_option("--admit_after", model.admit_after, "steps with a key until it has a row")
      ->capture_default_str();
  app.add_option("--keep_for", model.keep_for, "steps without a key until its row goes; 0: never")
      ->capture_default_str();
  app.add_option("--table_learning_rate", model.table_learning_rate, "of the tables' Adagrad")
      ->capture_default_str();
  if (!flags.parse(app, context)) return 0;

  torch::manual_seed(flags.seed);
  data.seed = flags.seed;
  auto train_data = std::make_shared<examples::Clicks>(data);
  data.first = data.samples;
  data.samples = std::max<std::int64_t>(data.samples / 10, 1);
  auto test_data = std::make_shared<examples::Clicks>(data);

  Recommender net(model);
  auto optimizer = std::make_shared<torch::optim::SGD>(
      net->parameters(), torch::optim::SGDOptions(flags.learning_rate));
  auto options = flags.trainer_options(context);
  options.metrics = {right_guesses()};
  auto strategy = context.strategy();
  if (strategy->is_chief()) {
    describe("users", data.users, model.dimension);
    describe("items", data.items, model.dimension);
    std::fflush(stdout);
  }
  cohort::Trainer trainer(strategy, net, optimizer, click_loss, options);
  auto fit = flags.fit_options(context);
  fit.validation = test_data;
  trainer.fit(train_data, fit);
  if (context.flags().servers.dry_run) return 0;

  const torch::Tensor ratings = trainer.predict(test_data);
  if (strategy->is_chief()) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(test_data->size()));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
    fmt::print("area under the curve {:.4f}\n",
               examples::area_under_curve(ratings, test_data->get(all, {}).target));
  }
  context.leave();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::run_main("recommender", [&] { return train(argc, argv); });
}

// A generative network for points on a ring of eight clusters: two phases in every step, each with
// an optimizer of its own. It trains in seconds.
//
//   build/bin/gan                                          alone
//   build/bin/cohort run -n 2 -- build/bin/gan             two workers, the same bits
#include "gan.h"

#include <fmt/core.h>

#include <cmath>
#include <cstdio>
#include <numbers>

#include "../common/train_flags.h"

namespace {

constexpr int kClusters = 8;
constexpr double kRadius = 2, kSpread = 0.1;

torch::Tensor centres() {
  const auto angles = torch::arange(kClusters) * (2 * std::numbers::pi / kClusters);
  return kRadius * torch::stack({angles.cos(), angles.sin()}, 1);
}

// A batch is a tensor: points, (samples, 2).
class Ring : public cohort::DatasetOf<torch::Tensor> {
 public:
  Ring(std::int64_t samples, std::uint64_t seed) {
    auto generator = at::detail::createCPUGenerator(seed);
    points_ = centres().index_select(0, torch::arange(samples).remainder(kClusters)) +
              kSpread * torch::randn({samples, 2}, generator);
  }
  std::int64_t size() const override { return points_.size(0); }
  torch::Tensor get(std::span<const std::int64_t> indices, const cohort::DrawKey&) const override {
    return points_.index_select(
        0, torch::tensor(std::vector<std::int64_t>(indices.begin(), indices.end())));
  }

 private:
  torch::Tensor points_;
};

// Drawn from what the Trainer seeds for each part of a batch: the same at any number of workers.
torch::Tensor noise_for(const torch::Tensor& points) {
  return torch::randn({points.size(0), examples::kNoise}, points.options());
}

// How many clusters were found, and how many points lie in one.
void describe(examples::Gan& net) {
  const torch::NoGradGuard no_gradients;
  auto generator = at::detail::createCPUGenerator(1);
  const auto noise = torch::randn({1000, examples::kNoise}, generator);
  net->to(torch::kCPU);
  const auto [nearest, cluster] = torch::cdist(net->generator->forward(noise), centres()).min(1);
  const auto good = nearest < 4 * kSpread;
  fmt::print("{} of {} clusters found; {:.0f}% of 1000 points lie in one\n",
             std::get<0>(torch::_unique2(cluster.masked_select(good))).numel(), kClusters,
             100 * good.to(torch::kFloat32).mean().item<double>());
  std::fflush(stdout);
}

std::shared_ptr<torch::optim::Adam> adam(torch::nn::Sequential& net, double learning_rate) {
  return std::make_shared<torch::optim::Adam>(
      net->parameters(), torch::optim::AdamOptions(learning_rate).betas({0.5, 0.99}));
}

int train(int argc, char** argv) {
  auto context = cohort::init(argc, argv);
  if (context.is_service()) return context.serve();

  examples::TrainFlags flags{
      .batch_size = 256, .train_epochs = 60, .learning_rate = 1e-3, .virtual_shards = 4};
  std::int64_t samples = 8192;
  CLI::App app("Trains a generative adversarial network on points.", "gan");
  flags.declare(app);
  app.remove_option(app.get_option("--data_dir"));
  app.add_option("--samples", samples, "points to train on")->capture_default_str();
  if (!flags.parse(app, context)) return 0;

  torch::manual_seed(flags.seed);
  examples::Gan net;
  auto options = flags.trainer_options(context);
  options.metrics = {};
  cohort::Trainer trainer(context.strategy(), net,
                          {{"discriminator", adam(net->discriminator, flags.learning_rate),
                            [](examples::Gan& gan, const torch::Tensor& real) {
                              return examples::discriminator_loss(gan, real, noise_for(real));
                            }},
                           {"generator", adam(net->generator, flags.learning_rate),
                            [](examples::Gan& gan, const torch::Tensor& real) {
                              return examples::generator_loss(gan, noise_for(real));
                            }}},
                          options);
  trainer.fit(std::make_shared<Ring>(samples, flags.seed), flags.fit_options(context));
  if (context.is_chief()) describe(net);
  context.leave();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::run_main("gan", [&] { return train(argc, argv); });
}

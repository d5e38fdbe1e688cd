// ResNet-20, 32, 44 or 56 on CIFAR-10.
//
//   scripts/get-data cifar10 data
//   build/bin/resnet_cifar --data_dir data/cifar-10-batches-bin/ --train_epochs 1
//   build/bin/cohort run -n 2 -- build/bin/resnet_cifar --data_dir data/cifar-10-batches-bin/
//       --distribution_strategy multi_worker_mirrored --batch_size 256
//
// 182 epochs are the original recipe. A shorter one: --train_epochs 60 --batch_size 512
// --learning_rate 0.3 --cosine --warmup_steps 300 --weight_decay 5e-4.
#include <cohort/cohort.h>

#include "../common/train_flags.h"
#include "resnet.h"

namespace {

int train(int argc, char** argv) {
  auto context = cohort::init(argc, argv);
  if (context.is_service()) return context.serve();

  examples::TrainFlags flags{.batch_size = 128, .train_epochs = 182, .learning_rate = 0.1};
  std::int64_t layers = 20;
  double weight_decay = 1e-4;
  bool cosine = false;
  std::int64_t warmup_steps = 0;
  CLI::App app("Trains a residual network on CIFAR-10.", "resnet_cifar");
  flags.declare(app);
  app.add_option("--resnet_size", layers, "layers")
      ->check(CLI::IsMember({20, 32, 44, 56}))
      ->capture_default_str();
  app.add_option("--weight_decay", weight_decay, "of the optimizer")->capture_default_str();
  app.add_flag("--cosine", cosine,
               "the rate falls by half a cosine, not to a tenth after epochs 91 and 136");
  app.add_option("--warmup_steps", warmup_steps, "with --cosine: steps until the full rate")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  if (!flags.parse(app, context)) return 0;

  torch::manual_seed(flags.seed);
  examples::ResNet net(layers);
  auto optimizer = std::make_shared<torch::optim::SGD>(
      net->parameters(),
      torch::optim::SGDOptions(flags.learning_rate).momentum(0.9).weight_decay(weight_decay));

  auto folder = cohort::data_folder("cifar10", flags.data_dir);
  cohort::Normalise normalise{{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}};
  auto train = std::make_shared<cohort::Transformed>(
      cohort::cifar10(folder, cohort::Split::kTrain),
      std::vector<cohort::Transform>{cohort::RandomCrop{.padding = 4}, cohort::HorizontalFlip{},
                                     normalise});
  auto test = std::make_shared<cohort::Transformed>(cohort::cifar10(folder, cohort::Split::kTest),
                                                    std::vector<cohort::Transform>{normalise});

  cohort::Trainer trainer(context.strategy(), net, optimizer, cohort::cross_entropy,
                          flags.trainer_options(context));
  auto fit = flags.fit_options(context);
  fit.validation = test;
  if (cosine)
    fit.callbacks.push_back(std::make_shared<cohort::WarmupCosine>(
        cohort::WarmupCosineOptions{.warmup_steps = warmup_steps}));
  else
    fit.callbacks.push_back(std::make_shared<cohort::MultiStepDecay>(std::vector<double>{91, 136}));
  trainer.fit(train, fit);
  context.leave();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::run_main("resnet_cifar", [&] { return train(argc, argv); });
}

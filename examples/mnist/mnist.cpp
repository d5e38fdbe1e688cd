// A small convolutional network on Fashion-MNIST, or on MNIST with --data_dir.
//
//   build/bin/mnist                                            alone
//   build/bin/cohort run -n 2 -- build/bin/mnist               two workers, the same program
//   build/bin/mnist --distribution_strategy mirrored --num_replicas 2   two replicas in one process
#include <cohort/cohort.h>

#include "../common/train_flags.h"

namespace {

struct NetImpl : torch::nn::Cloneable<NetImpl> {
  NetImpl() { reset(); }

  void reset() override {
    conv1 =
        register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 5).padding(2)));
    conv2 =
        register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 5).padding(2)));
    dropout = register_module("dropout", torch::nn::Dropout(0.25));
    hidden = register_module("hidden", torch::nn::Linear(32 * 7 * 7, 128));
    output = register_module("output", torch::nn::Linear(128, 10));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    x = dropout(torch::relu(hidden(x.flatten(1))));
    return output(x);
  }

  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::Linear hidden{nullptr}, output{nullptr};
};
TORCH_MODULE(Net);

int train(int argc, char** argv) {
  auto context = cohort::init(argc, argv);
  if (context.is_service()) return context.serve();

  examples::TrainFlags flags{.batch_size = 128, .train_epochs = 3, .learning_rate = 0.05};
  CLI::App app("Trains a convolutional network on Fashion-MNIST.", "mnist");
  flags.declare(app);
  if (!flags.parse(app, context)) return 0;

  torch::manual_seed(flags.seed);
  Net net;
  auto optimizer = std::make_shared<torch::optim::SGD>(
      net->parameters(), torch::optim::SGDOptions(flags.learning_rate).momentum(0.9));

  auto folder = cohort::data_folder("fashion-mnist", flags.data_dir);
  cohort::Trainer trainer(context.strategy(), net, optimizer, cohort::cross_entropy,
                          flags.trainer_options(context));
  auto fit = flags.fit_options(context);
  fit.validation = cohort::fashion_mnist(folder, cohort::Split::kTest);
  trainer.fit(cohort::fashion_mnist(folder, cohort::Split::kTrain), fit);
  context.leave();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::run_main("mnist", [&] { return train(argc, argv); });
}

// A training loop of one's own, made distributed with a few lines (marked <-). It trains a small
// network on Fashion-MNIST, alone or with others:
//
//   build/bin/custom_loop                                          alone
//   build/bin/custom_loop --num_replicas 2                         two replicas in one process
//   build/bin/cohort run -n 2 -- build/bin/custom_loop             two workers
//   mpirun -np 2 build/bin/custom_loop                             the same under MPI
//   TF_CONFIG='{"cluster": {"worker": ["localhost:8080", "localhost:8081"]},
//               "task": {"type": "worker", "index": 0}}' build/bin/custom_loop
//       and the same with "index": 1 in a second terminal
#include <cohort/cohort.h>
#include <fmt/core.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "../common/parse_arguments.h"

namespace {

struct Flags {
  std::string data_dir;
  int epochs = 1;
  int batch_size = 64;  // of all replicas together
  int max_steps = 0;    // 0: whole epochs
  double learning_rate = 0.02;
};

// Nothing when --help was asked for and answered.
std::optional<Flags> parse(std::vector<std::string> arguments) {
  Flags flags;
  CLI::App app("Trains a small network on Fashion-MNIST.");
  app.footer("Every Cohort program understands:\n" + cohort::parallel::strategy_flags_text());
  app.add_option("--data_dir", flags.data_dir, "Folder of the IDX files");
  app.add_option("--epochs", flags.epochs, "Passes over the data")->capture_default_str();
  app.add_option("--batch_size", flags.batch_size, "Samples of a step")->capture_default_str();
  app.add_option("--max_steps", flags.max_steps, "Stop after so many steps; 0: never");
  app.add_option("--learning_rate", flags.learning_rate, "The optimizer's")->capture_default_str();
  if (!examples::parse_arguments(app, std::move(arguments))) return std::nullopt;
  return flags;
}

// The share of a data set that the network labels rightly, over all replicas.
double accuracy(auto& net, cohort::DataLoader<>& test_set, const cohort::Replica& replica) {
  const torch::NoGradGuard no_grad;
  torch::Tensor counts = torch::zeros({2}, torch::kLong);
  for (const auto& batch : test_set)
    counts += torch::stack(
        {net(batch.data).argmax(1).eq(batch.target).sum().cpu(), torch::tensor(batch.size())});
  cohort::all_reduce_(*replica.group, counts);  // <-
  return counts[0].item<double>() / counts[1].item<double>();
}

void train(const Flags& flags, const cohort::Replica& replica) {
  const auto folder = cohort::data_folder("fashion-mnist", flags.data_dir);
  cohort::DataLoader<> train_set(  // <- this replica's part of every batch
      *replica.group, cohort::fashion_mnist(folder, cohort::Split::kTrain),
      {.batch_size = flags.batch_size, .drop_last = true, .device = replica.device});
  cohort::DataLoader<> test_set(  // <-
      *replica.group, cohort::fashion_mnist(folder, cohort::Split::kTest),
      {.batch_size = 1000, .shuffle = false, .device = replica.device});

  torch::nn::Sequential layers(torch::nn::Flatten(), torch::nn::Linear(28 * 28, 128),
                               torch::nn::ReLU(), torch::nn::Linear(128, 10));
  layers->to(replica.device);
  cohort::DDP<torch::nn::Sequential> net(*replica.group, layers);  // <- averages the gradients
  torch::optim::SGD optimizer(net->parameters(),
                              torch::optim::SGDOptions(flags.learning_rate).momentum(0.9));

  int steps = 0;
  for (int epoch = 0; epoch < flags.epochs; ++epoch) {
    double loss_sum = 0;
    const int steps_before = steps;
    for (const auto& batch : train_set) {
      if (flags.max_steps > 0 && steps == flags.max_steps) break;
      optimizer.zero_grad();
      torch::Tensor loss = torch::cross_entropy_loss(net(batch.data), batch.target);
      loss.backward();
      optimizer.step();
      loss_sum += loss.item<double>();
      ++steps;
    }
    const auto metrics = cohort::average_metrics(  // <- over all replicas
        *replica.group, {{"loss", loss_sum / std::max(1, steps - steps_before)}});
    const double right = accuracy(net, test_set, replica);
    if (replica.is_first())
      fmt::print("epoch {}: {} steps, {} replicas, loss {:.4f}, test accuracy {:.4f}\n", epoch + 1,
                 steps, replica.size, metrics.at("loss"), right);
  }
}

int run(int argc, char** argv) {
  cohort::Context context = cohort::init(argc, argv);  // <- finds its role, meets the others
  if (context.is_service()) return context.serve();
  const auto flags = parse(context.arguments());
  if (flags)
    context.strategy()->run([&](const cohort::Replica& replica) { train(*flags, replica); });
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::run_main("custom_loop", [&] { return run(argc, argv); });
}

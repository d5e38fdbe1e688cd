// A training loop of one's own, made distributed with a handful of lines (marked <-). It trains a
// small network on Fashion-MNIST, alone or with others:
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
  int batch_size = 64;  // a replica
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
  app.add_option("--batch_size", flags.batch_size, "Samples a replica and step")
      ->capture_default_str();
  app.add_option("--max_steps", flags.max_steps, "Stop after so many steps; 0: never");
  app.add_option("--learning_rate", flags.learning_rate, "For one replica")->capture_default_str();
  if (!examples::parse_arguments(app, std::move(arguments))) return std::nullopt;
  return flags;
}

torch::nn::Sequential make_net() {
  return torch::nn::Sequential(torch::nn::Flatten(), torch::nn::Linear(28 * 28, 128),
                               torch::nn::ReLU(), torch::nn::Linear(128, 10));
}

// The share of a data set that the network labels rightly, over all replicas.
double accuracy(torch::nn::Sequential& net, const cohort::train::Dataset& test_set,
                const cohort::Replica& replica) {
  const torch::NoGradGuard no_grad;
  cohort::train::DistributedSampler sampler(
      test_set.size(), {.rank = replica.rank, .size = replica.size, .shuffle = false});
  torch::Tensor right = torch::zeros({1}, torch::kLong);
  while (auto indices = sampler.next(1000)) {
    const auto batch =
        test_set.get(std::vector<std::int64_t>(indices->begin(), indices->end()), {});
    right += net->forward(batch.data.to(replica.device)).argmax(1).cpu().eq(batch.target).sum();
  }
  cohort::all_reduce_(*replica.group, right);  // <-
  return right.item<double>() / static_cast<double>(test_set.size());
}

void train(const Flags& flags, const cohort::Replica& replica) {
  const auto folder = cohort::train::data_folder("fashion-mnist", flags.data_dir);
  const auto train_set = cohort::train::fashion_mnist(folder, cohort::train::Split::kTrain);
  const auto test_set = cohort::train::fashion_mnist(folder, cohort::train::Split::kTest);
  cohort::train::DistributedSampler sampler(  // <- this replica's share of the samples
      train_set->size(), {.rank = replica.rank, .size = replica.size, .drop_last = true});

  auto net = make_net();
  net->to(replica.device);
  torch::optim::SGD sgd(net->parameters(),
                        torch::optim::SGDOptions(flags.learning_rate * replica.size).momentum(0.9));
  cohort::broadcast_parameters(*replica.group, *net);           // <- all begin as replica 0 does
  cohort::broadcast_optimizer_state(*replica.group, sgd);       // <-
  cohort::DistributedOptimizer optimizer(*replica.group, sgd);  // <- averages the gradients

  int steps = 0;
  for (int epoch = 0; epoch < flags.epochs; ++epoch) {
    sampler.set_epoch(epoch);
    sampler.reset();
    double loss_sum = 0;
    int batches = 0;
    while (auto indices = sampler.next(flags.batch_size)) {
      if (flags.max_steps > 0 && steps == flags.max_steps) break;
      const auto batch =
          train_set->get(std::vector<std::int64_t>(indices->begin(), indices->end()), {});
      optimizer.zero_grad();
      torch::Tensor loss = torch::cross_entropy_loss(net->forward(batch.data.to(replica.device)),
                                                     batch.target.to(replica.device));
      loss.backward();
      optimizer.step();
      loss_sum += loss.item<double>();
      ++batches;
      ++steps;
    }
    const auto metrics =  // <- over all replicas
        cohort::average_metrics(*replica.group, {{"loss", loss_sum / std::max(1, batches)}});
    const double right = accuracy(net, *test_set, replica);
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
  context.leave();  // <-
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::run_main("custom_loop", [&] { return run(argc, argv); });
}

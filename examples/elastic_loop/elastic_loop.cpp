// A training loop of one's own that goes on when workers are killed, come back, and join: what
// custom_loop does, with the lines for that marked <-. It trains a small network on Fashion-MNIST:
//
//   build/bin/elastic_loop                                                       alone
//   build/bin/cohort run -n 2:4 --elastic -- build/bin/elastic_loop              two to four
//   workers build/bin/cohort run -n 2:4 --elastic -- build/bin/elastic_loop --step_ms 100
//       slowly: kill -9 a worker, watch the others go on and the new one join; every epoch's line
//       says that each sample entered exactly one step
#include <cohort/cohort.h>
#include <fmt/core.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <thread>

#include "../common/parse_arguments.h"

namespace {

struct Flags {
  std::string data_dir;
  int epochs = 2;
  int samples = 0;      // 0: all
  int batch_size = 64;  // of all workers together
  double learning_rate = 0.01;
  int commit_every = 1;
  int step_ms = 0;
  bool log_commits = false;
};

// Nothing when --help was asked for and answered.
std::optional<Flags> parse(std::vector<std::string> arguments) {
  Flags flags;
  CLI::App app("Trains a small network on Fashion-MNIST, with workers that come and go.");
  app.footer("Every Cohort program understands:\n" + cohort::parallel::strategy_flags_text());
  app.add_option("--data_dir", flags.data_dir, "Folder of the IDX files");
  app.add_option("--epochs", flags.epochs, "Passes over the data")->capture_default_str();
  app.add_option("--samples", flags.samples, "Of the data set, the first so many; 0: all");
  app.add_option("--batch_size", flags.batch_size, "Samples of a step, of all workers together")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--learning_rate", flags.learning_rate, "The optimizer's")->capture_default_str();
  app.add_option("--commit_every", flags.commit_every, "Steps that a lost worker may cost")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--step_ms", flags.step_ms, "Waits so long in each step, to see what happens");
  app.add_flag("--log_commits", flags.log_commits, "Prints what each commit holds");
  if (!examples::parse_arguments(app, std::move(arguments))) return std::nullopt;
  return flags;
}

// What the samples of an epoch have come to, over all workers: {loss, how many, sum of their
// numbers, sum of the squares}. The last three prove that each came once.
struct Tally {
  torch::Tensor sums = torch::zeros({4}, torch::kDouble);

  static torch::Tensor of(const std::vector<std::int64_t>& indices, const torch::Tensor& loss) {
    const auto numbers = torch::tensor(indices, torch::kLong).to(torch::kDouble);
    return torch::stack({loss.detach().to(torch::kDouble), torch::tensor(double(indices.size())),
                         numbers.sum(), numbers.square().sum()});
  }
  double loss() const { return sums[0].item<double>() / std::max(1.0, sums[1].item<double>()); }
  bool each_once(std::int64_t samples) const {
    const auto numbers = torch::arange(samples, torch::kLong).to(torch::kDouble);
    return sums[1].item<double>() == double(samples) &&
           sums[2].item<double>() == numbers.sum().item<double>() &&
           sums[3].item<double>() == numbers.square().sum().item<double>();
  }
};

void train(cohort::Context& context, const Flags& flags) {
  const auto folder = cohort::data_folder("fashion-mnist", flags.data_dir);
  auto data = cohort::fashion_mnist(folder, cohort::Split::kTrain);
  if (flags.samples > 0) data = cohort::take(data, flags.samples);

  torch::nn::Sequential net(torch::nn::Flatten(), torch::nn::Linear(28 * 28, 128),
                            torch::nn::ReLU(), torch::nn::Linear(128, 10));
  torch::optim::SGD sgd(net->parameters(),
                        torch::optim::SGDOptions(flags.learning_rate).momentum(0.9));
  cohort::ElasticSampler sampler(data->size(), {.batch_size = flags.batch_size});
  std::int64_t epoch = 0, step = 0;
  Tally tally;

  cohort::elastic::State state;  // <- all that a worker must know to go on
  state.register_module("net", *net);
  state.register_optimizer("sgd", sgd);
  state.register_sampler("sampler", sampler);
  state.register_value("epoch", epoch);
  state.register_value("step", step);
  state.register_tensor("tally", tally.sums);
  const auto name = to_string(context.role().task);
  const auto print_place = [&](const char* what) {
    fmt::print("{} {} step {} with {} workers, parameters {:.16}\n", name, what, step,
               context.size(), cohort::fingerprint(*net));
    std::fflush(stdout);
  };

  // <- called again whenever the workers have changed, with the state of the last commit
  cohort::elastic::run(context, state, [&](cohort::elastic::State& state) {
    print_place("begins at");
    cohort::DistributedOptimizer optimizer(context, sgd, {.average = false});
    for (; epoch < flags.epochs; ++epoch) {
      sampler.set_epoch(epoch);
      while (sampler.batches() > 0) {
        const auto indices = sampler.batch();  // may be empty in the epoch's last step
        const auto batch = data->get(indices, {});
        optimizer.zero_grad();
        const torch::Tensor loss = torch::cross_entropy_loss(net->forward(batch.data), batch.target,
                                                             {}, at::Reduction::Sum);
        // Divided by the samples of all workers: the sum of the gradients is the batch's mean.
        (loss / static_cast<double>(sampler.batch_total())).backward();
        optimizer.step();
        tally.sums += cohort::all_reduce(context, Tally::of(indices, loss));
        sampler.record_batch();
        ++step;
        std::this_thread::sleep_for(std::chrono::milliseconds(flags.step_ms));
        if (step % flags.commit_every == 0 || sampler.batches() == 0) {
          if (flags.log_commits) print_place("commits");
          state.commit();  // <- what is done until here is never lost
        }
      }
      if (context.rank() == 0)
        fmt::print("epoch {}: {} steps, loss {:.4f}, each sample once: {}\n", epoch + 1, step,
                   tally.loss(), tally.each_once(data->size()) ? "yes" : "no");
      tally.sums.zero_();
    }
  });
  print_place("is done after");
}

int run(int argc, char** argv) {
  cohort::Context context = cohort::init(argc, argv);
  if (context.is_service()) return context.serve();
  if (const auto flags = parse(context.arguments())) train(context, *flags);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::run_main("elastic_loop", [&] { return run(argc, argv); });
}

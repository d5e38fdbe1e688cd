// A training for tests and benchmarks of elastic jobs: an MLP with dropout on made-up data.
// usage: elastic_program [--steps N] [--batch N] [--width N] [--samples N] [--shards N]
//                        [--checkpoint_steps N] [--pause MS] [--slow FILE] [--times FOLDER]
//                        [--norm] [--stop_at STEP] [--after MS]
//
// --width sets the size of the model: 64 has 0.2 MB of parameters, 4096 has 80 MB. --norm adds
// batch norm, and with it buffers. An epoch has --samples samples and a validation. Workers pause
// MS after each step while FILE exists: tests keep a job alive for as long as they need, without a
// different result. Every process appends each step that it has applied to FOLDER/worker-I.PID, one
// write a line: "STEP NANOSECONDS LOSS", with the nanoseconds of CLOCK_MONOTONIC, which all
// processes of a host share. At the end the chief prints "weights DIGEST". --stop_at ends
// training there by a callback; --after evaluates the model once more, MS later.
#include <cohort/cohort.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "../../examples/common/parse_arguments.h"
#include "cohort/base/unique_fd.h"

namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kInputs = 784;
constexpr std::int64_t kClasses = 10;

struct Options {
  std::int64_t steps = 100;
  std::int64_t batch = 16;
  std::int64_t width = 64;
  std::int64_t samples = 1600;
  int shards = 0;
  std::int64_t checkpoint_steps = 0;
  int pause_ms = 0;
  std::string slow;
  std::string times;
  bool norm = false;
  std::int64_t stop_at = 0;
  std::optional<int> after_ms;
};

// False: --help was asked for and answered.
bool parse(const cohort::Context& context, Options& options) {
  CLI::App app("Trains an MLP on made-up data, for tests of elastic jobs.", "elastic_program");
  app.add_option("--steps", options.steps, "of the whole training");
  app.add_option("--batch", options.batch, "samples a step, over all workers");
  app.add_option("--width", options.width, "of the two hidden layers");
  app.add_option("--samples", options.samples, "of an epoch");
  app.add_option("--shards", options.shards, "virtual shards of a batch; 0: the job's default");
  app.add_option("--checkpoint_steps", options.checkpoint_steps, "0: one at the end");
  app.add_option("--pause", options.pause_ms,
                 "milliseconds after each step, while --slow is there");
  app.add_option("--slow", options.slow, "a file");
  app.add_option("--times", options.times, "folder for the times of steps");
  app.add_flag("--norm", options.norm, "batch norm between the hidden layers");
  app.add_option("--stop_at", options.stop_at, "a step; 0: none");
  app.add_option("--after", options.after_ms, "milliseconds from the training to an evaluation");
  return examples::parse_arguments(app, context.arguments());
}

struct NetImpl : torch::nn::Cloneable<NetImpl> {
  NetImpl(std::int64_t width, bool normed) : width_(width), normed_(normed) { reset(); }
  void reset() override {
    first = register_module("first", torch::nn::Linear(kInputs, width_));
    if (normed_) norm = register_module("norm", torch::nn::BatchNorm1d(width_));
    second = register_module("second", torch::nn::Linear(width_, width_));
    dropout = register_module("dropout", torch::nn::Dropout(0.1));
    third = register_module("third", torch::nn::Linear(width_, kClasses));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor hidden = torch::relu(first(x));
    if (normed_) hidden = norm(hidden);
    return third(dropout(torch::relu(second(hidden))));
  }
  std::int64_t width_;
  bool normed_;
  torch::nn::Linear first{nullptr}, second{nullptr}, third{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Net);

// The label is where the largest of ten sums of pixels is: there is something to learn.
std::shared_ptr<cohort::Dataset> make_data(std::int64_t samples, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  auto data = torch::rand({samples, kInputs}, generator);
  auto target = data.slice(1, 0, 780).view({samples, kClasses, 78}).sum(2).argmax(1);
  return std::make_shared<cohort::TensorDataset>(data, target);
}

// Tells when each step was applied, and slows training down.
class StepTimes : public cohort::Callback {
 public:
  StepTimes(const Options& options, int worker) : options_(options) {
    if (options.times.empty()) return;
    fs::create_directories(options.times);
    const auto path = fs::path(options.times) / fmt::format("worker-{}.{}", worker, getpid());
    file_ = cohort::UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!file_) throw cohort::SystemError(fmt::format("cannot write '{}'", path.string()), errno);
  }

  void on_step_end(cohort::FitState& fit) override {
    if (file_) {
      timespec now{};
      ::clock_gettime(CLOCK_MONOTONIC, &now);
      const std::string line =
          fmt::format("{} {} {}\n", fit.step,
                      now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec, fit.logs.at("loss"));
      if (::write(file_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
        throw cohort::SystemError("cannot write the time of a step", errno);
    }
    if (fit.step == options_.stop_at) fit.stop("it was asked to");
    if (options_.pause_ms > 0 && fs::exists(options_.slow))
      std::this_thread::sleep_for(std::chrono::milliseconds(options_.pause_ms));
  }

 private:
  Options options_;
  cohort::UniqueFd file_;
};

int run(int argc, char** argv) {
  auto context = cohort::init(argc, argv);
  if (context.is_service()) return context.serve();
  Options options;
  if (!parse(context, options)) return 0;
  torch::manual_seed(1);
  Net net(options.width, options.norm);
  auto optimizer = std::make_shared<torch::optim::SGD>(
      net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  cohort::Trainer trainer(
      context.strategy(), net, optimizer, cohort::cross_entropy,
      {.batch_size = options.batch, .virtual_shards = options.shards, .seed = 1});
  cohort::FitOptions fit{
      .epochs = 1 + options.steps * options.batch / options.samples,
      .max_steps = options.steps,
      .validation = make_data(64, 2),
      .callbacks = {std::make_shared<StepTimes>(options, context.role().task.index)}};
  if (!context.output().empty())
    fit.callbacks.push_back(std::make_shared<cohort::ModelCheckpoint>(
        fs::path(context.output()) / "checkpoints",
        cohort::ModelCheckpointOptions{.every_epochs = 0,
                                       .every_steps = options.checkpoint_steps}));
  trainer.fit(make_data(options.samples, 1), fit);
  if (options.after_ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(*options.after_ms));
    trainer.evaluate(fit.validation);
  }
  context.leave();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::run_main("elastic_program", [&] { return run(argc, argv); });
}

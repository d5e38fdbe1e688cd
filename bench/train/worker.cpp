// One worker of train_bench.py: trains a model on synthetic data for some steps and prints, as one
// line of JSON, how fast it was, its last loss, its weights' fingerprint and its peak memory.
//
//   train_bench_worker MODEL MODE BATCH WARMUP STEPS
//     MODEL  resnet20 | mlp
//     MODE   silent   a bare LibTorch loop; workers do not talk
//            loop     the same loop with DistributedOptimizer
//            trainer  Trainer::fit
// bench/train/ddp_worker.py does the same in Python: same weights to begin with, same data.
#include <cohort/cohort.h>
#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "examples/resnet_cifar/resnet.h"

namespace {

using Clock = std::chrono::steady_clock;

struct MlpImpl : torch::nn::Cloneable<MlpImpl> {
  MlpImpl() { reset(); }
  void reset() override {
    first = register_module("first", torch::nn::Linear(784, 4096));
    second = register_module("second", torch::nn::Linear(4096, 4096));
    third = register_module("third", torch::nn::Linear(4096, 10));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return third(torch::relu(second(torch::relu(first(x)))));
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, third{nullptr};
};
TORCH_MODULE(Mlp);

struct Case {
  cohort::Model model;
  std::vector<int64_t> shape;  // of one sample
};

Case find_case(const std::string& name) {
  if (name == "resnet20") return {examples::ResNet(20), {3, 32, 32}};
  if (name == "mlp") return {Mlp(), {784}};
  throw cohort::InvalidInput(fmt::format("'{}' is not a model", name),
                             {.advice = "Give resnet20 or mlp."});
}

// Values that need no random generator, so that Python can make the same: a sine for the k-th
// parameter with two or more dimensions, no bias.
void initialise(torch::nn::Module& module) {
  torch::NoGradGuard no_gradients;
  int k = 0;
  for (auto& item : module.named_parameters()) {
    torch::Tensor parameter = item.value();
    if (parameter.dim() < 2) {
      if (item.key().ends_with("bias")) parameter.zero_();
      continue;
    }
    double fan_in = static_cast<double>(parameter.numel()) / static_cast<double>(parameter.size(0));
    auto index = torch::arange(parameter.numel(), torch::kFloat64);
    parameter.copy_(((index * 0.37 + ++k).sin() * std::sqrt(2 / fan_in)).view(parameter.sizes()));
  }
}

cohort::Batch make_data(int64_t samples, const std::vector<int64_t>& shape, int64_t first) {
  std::vector<int64_t> sizes{samples};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  int64_t each = c10::multiply_integers(shape);
  auto index = torch::arange(first * each, (first + samples) * each, torch::kFloat64);
  return {(index * 0.01).sin().to(torch::kFloat32).view(sizes),
          torch::arange(first, first + samples).remainder(10)};
}

// Without buffers: in a loop of one's own each worker keeps its batch-norm statistics.
std::string fingerprint_of_parameters(const torch::nn::Module& module) {
  cohort::train::NamedTensors parameters;
  for (const auto& item : module.named_parameters()) parameters[item.key()] = item.value().detach();
  return cohort::fingerprint(parameters);
}

// The number behind `name` in a file of /proc/self, in KiB.
std::int64_t memory_kib(const char* file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string word; lines >> word;)
    if (std::int64_t kib = 0; word == name && lines >> kib) return kib;
  return 0;
}

// The peak of memory counts from here: making the first weights is not training.
void forget_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

struct Measured {
  double seconds = 0;
  double loss = 0;
};

struct StopWatch : cohort::Callback {
  explicit StopWatch(int64_t warmup) : warmup_(warmup) {}
  void on_step_end(cohort::FitState& fit) override {
    if (fit.step == warmup_) begin = Clock::now();
    end = Clock::now();
    loss = fit.logs.at("loss");
  }
  int64_t warmup_;
  Clock::time_point begin, end;
  double loss = 0;
};

Measured run_loop(const cohort::Model& model, torch::optim::Optimizer& optimizer,
                  const std::function<void()>& step, const cohort::Batch& batch, int64_t warmup,
                  int64_t steps) {
  Measured measured;
  Clock::time_point begin;
  model.module().train();
  for (int64_t i = 0; i < warmup + steps; ++i) {
    if (i == warmup) begin = Clock::now();
    optimizer.zero_grad();
    auto loss = cohort::cross_entropy(model.forward(batch.data), batch.target);
    loss.backward();
    step();
    measured.loss = loss.item<double>();
  }
  measured.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return measured;
}

int run(int argc, char** argv) {
  auto context = cohort::init(argc, argv);
  const auto& words = context.arguments();
  if (words.size() != 5)
    throw cohort::InvalidInput("five words are expected",
                               {.advice = "MODEL MODE BATCH WARMUP STEPS"});
  int64_t batch = std::stoll(words[2]), warmup = std::stoll(words[3]), steps = std::stoll(words[4]);
  const std::string& mode = words[1];
  auto [model, shape] = find_case(words[0]);
  initialise(model.module());
  auto optimizer = std::make_shared<torch::optim::SGD>(
      model.module().parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  auto strategy = context.strategy();
  Measured measured;
  forget_peak();
  context.group().barrier();
  if (mode == "trainer") {
    auto all = make_data(batch * context.size(), shape, 0);
    cohort::Trainer trainer(strategy, model, optimizer, cohort::cross_entropy,
                            {.batch_size = batch * context.size()});
    auto watch = std::make_shared<StopWatch>(warmup);
    trainer.fit(
        std::make_shared<cohort::TensorDataset>(all.data, all.target),
        {.epochs = warmup + steps, .shuffle = false, .callbacks = {watch}, .progress = false});
    measured = {std::chrono::duration<double>(watch->end - watch->begin).count(), watch->loss};
  } else if (mode == "loop") {
    cohort::DistributedOptimizer distributed(context, *optimizer);
    measured = run_loop(
        model, *optimizer, [&] { distributed.step(); },
        make_data(batch, shape, batch * context.rank()), warmup, steps);
  } else {
    measured = run_loop(
        model, *optimizer, [&] { optimizer->step(); },
        make_data(batch, shape, batch * context.rank()), warmup, steps);
  }
  nlohmann::json line{
      {"rank", context.rank()},
      {"samples_per_second", static_cast<double>(batch * steps) / measured.seconds},
      {"loss", measured.loss},
      {"weights", fingerprint_of_parameters(model.module())},
      // Pages shared with others counted in part: the peer's buckets are mapped too.
      {"share_kib", memory_kib("/proc/self/smaps_rollup", "Pss:")},
      {"peak_kib", memory_kib("/proc/self/status", "VmHWM:")}};
  fmt::print("measured {}\n", line.dump());
  std::fflush(stdout);
  context.leave();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::run_main("train_bench_worker", [&] { return run(argc, argv); });
}

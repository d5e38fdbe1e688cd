// One worker of train_bench.py: trains a model on synthetic data for some steps and prints, as one
// line of JSON, how fast it was, its last loss, its weights' fingerprint and its peak memory.
//
//   train_bench_worker MODEL MODE BATCH WARMUP STEPS [RATE MOMENTUM] [strategy flags]
//     MODEL  resnet20 | mlp | gpt
//     MODE   silent   a bare LibTorch loop; workers do not talk
//            loop     the same loop with DistributedOptimizer
//            trainer  Trainer::fit, with the strategy that the flags say
// bench/train/ddp_worker.py and tf_ps.py do the same in Python: same weights to begin with, same
// data.
#include <cohort/cohort.h>
#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "examples/gpt/gpt_model.h"
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

// The language model: samples are runs of tokens, of which each tells the one before it.
constexpr int64_t kSequence = 128, kVocabulary = 256;

torch::Tensor next_token_loss(const torch::Tensor& logits, const torch::Tensor& target) {
  return torch::cross_entropy_loss(logits.flatten(0, 1), target.flatten());
}

struct Case {
  cohort::Model model;
  std::vector<int64_t> shape;  // of one sample; empty: tokens
  cohort::LossFunction loss = cohort::cross_entropy;
  cohort::TrainingStep step = cohort::cross_entropy;  // the same for a Trainer
};

Case find_case(const std::string& name) {
  if (name == "resnet20") return {examples::ResNet(20), {3, 32, 32}};
  if (name == "mlp") return {Mlp(), {784}};
  if (name == "gpt") {
    auto options = examples::gpt_preset("6M");
    options.sequence = kSequence;
    options.dropout = 0;  // of which both sides have their own
    return {examples::Gpt(options),
            {},
            next_token_loss,
            [](examples::Gpt& net, const cohort::Batch& batch) {
              return cohort::token_cross_entropy(net->forward(batch.data), batch.target);
            }};
  }
  throw cohort::InvalidInput(fmt::format("'{}' is not a model", name),
                             {.advice = "Give resnet20, mlp or gpt."});
}

// Numbers in [-1, 1) that look random but need no generator, so that Python can make the same: what
// is behind the point of a large sine.
torch::Tensor scattered(int64_t first, int64_t count, double phase) {
  auto sine = (torch::arange(first, first + count, torch::kFloat64) + phase).sin() * 43758.5453;
  return (sine - sine.floor()) * 2 - 1;
}

// Every parameter with two or more dimensions gets numbers of its own; no bias.
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
    auto values = scattered(0, parameter.numel(), 0.5 * ++k) / std::sqrt(fan_in);
    parameter.copy_(values.view(parameter.sizes()));
  }
}

cohort::Batch make_data(int64_t samples, const std::vector<int64_t>& shape, int64_t first) {
  if (shape.empty()) {
    const int64_t each = kSequence + 1;
    const auto numbers = (scattered(first * each, samples * each, 0) + 1) * (kVocabulary / 2);
    const auto tokens = numbers.floor().to(torch::kInt64).view({samples, each});
    return {tokens.narrow(1, 0, kSequence).contiguous(),
            tokens.narrow(1, 1, kSequence).contiguous()};
  }
  std::vector<int64_t> sizes{samples};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  int64_t each = c10::multiply_integers(shape);
  return {scattered(first * each, samples * each, 0).to(torch::kFloat32).view(sizes),
          torch::arange(first, first + samples).remainder(10)};
}

// Without buffers: in a loop of one's own each worker keeps its batch-norm statistics.
std::string fingerprint_of_parameters(const torch::nn::Module& module) {
  cohort::train::TensorMap parameters;
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
  double first_loss = 0, loss = 0;
};

struct StopWatch : cohort::Callback {
  explicit StopWatch(int64_t warmup) : warmup_(warmup) {}
  void on_step_end(cohort::FitState& fit) override {
    if (fit.step == warmup_) begin = Clock::now();
    end = Clock::now();
    measured.loss = fit.logs.at("loss");
    if (fit.step == 1) measured.first_loss = measured.loss;
    measured.seconds = std::chrono::duration<double>(end - begin).count();
  }
  int64_t warmup_;
  Clock::time_point begin, end;
  Measured measured;
};

Measured run_loop(const Case& one, torch::optim::Optimizer& optimizer,
                  const std::function<void()>& step, const cohort::Batch& batch, int64_t warmup,
                  int64_t steps) {
  Measured measured;
  Clock::time_point begin;
  one.model.module().train();
  for (int64_t i = 0; i < warmup + steps; ++i) {
    if (i == warmup) begin = Clock::now();
    optimizer.zero_grad();
    auto loss = one.loss(one.model.forward(batch.data), batch.target);
    loss.backward();
    step();
    measured.loss = loss.item<double>();
    if (i == 0) measured.first_loss = measured.loss;
  }
  measured.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return measured;
}

// All workers' samples of one step, `steps` times over.
std::shared_ptr<cohort::Dataset> repeat(const cohort::Batch& all, int64_t steps) {
  std::vector<int64_t> indices(static_cast<std::size_t>(all.size() * steps));
  for (std::size_t i = 0; i < indices.size(); ++i)
    indices[i] = static_cast<int64_t>(i) % all.size();
  return std::make_shared<cohort::train::Subset>(
      std::make_shared<cohort::TensorDataset>(all.data, all.target), std::move(indices));
}

int run(int argc, char** argv) {
  auto context = cohort::init(argc, argv);
  if (context.is_service()) return context.serve();
  const auto& words = context.arguments();
  if (words.size() != 5 && words.size() != 7)
    throw cohort::InvalidInput("five or seven words are expected",
                               {.advice = "MODEL MODE BATCH WARMUP STEPS [RATE MOMENTUM]"});
  int64_t batch = std::stoll(words[2]), warmup = std::stoll(words[3]), steps = std::stoll(words[4]);
  const std::string& mode = words[1];
  const Case one = find_case(words[0]);
  const auto& [model, shape, loss, training_step] = one;
  initialise(model.module());
  auto options = torch::optim::SGDOptions(0.01).momentum(0.9);
  if (words.size() == 7)
    options = torch::optim::SGDOptions(std::stod(words[5])).momentum(std::stod(words[6]));
  auto optimizer = std::make_shared<torch::optim::SGD>(model.module().parameters(), options);
  auto strategy = context.strategy();
  Measured measured;
  forget_peak();
  if (mode == "trainer") {
    cohort::Trainer trainer(strategy, model, optimizer, training_step,
                            {.batch_size = batch * context.size(), .shard = context.flags().shard});
    auto watch = std::make_shared<StopWatch>(warmup);
    trainer.fit(repeat(make_data(batch * context.size(), shape, 0), warmup + steps),
                {.epochs = 1, .shuffle = false, .callbacks = {watch}, .progress = false});
    measured = watch->measured;
  } else {
    context.group().barrier();
    auto data = make_data(batch, shape, batch * context.rank());
    if (mode == "loop") {
      cohort::DistributedOptimizer distributed(context, *optimizer);
      measured = run_loop(
          one, *optimizer, [&] { distributed.step(); }, data, warmup, steps);
    } else {
      measured = run_loop(
          one, *optimizer, [&] { optimizer->step(); }, data, warmup, steps);
    }
  }
  nlohmann::json line{
      {"rank", context.rank()},
      {"samples_per_second", static_cast<double>(batch * steps) / measured.seconds},
      {"first_loss", measured.first_loss},
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

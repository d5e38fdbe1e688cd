// One worker of memory_bench.py: trains a deep model with Adam on synthetic data and prints, as one
// line of JSON, how much memory the training took at most.
//
//   memory_bench_worker LAYERS WIDTH STEPS [strategy flags]
#include <cohort/cohort.h>
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

namespace {

constexpr int64_t kBatch = 4, kClasses = 16;  // of one worker: activations are next to nothing

// Layers of one size, none of which is much of the whole.
struct DeepImpl : torch::nn::Module {
  DeepImpl(int64_t layers, int64_t width) {
    for (int64_t i = 0; i < layers; ++i)
      blocks->push_back(torch::nn::Linear(torch::nn::LinearOptions(width, width).bias(false)));
    register_module("blocks", blocks);
    head = register_module("head", torch::nn::Linear(width, kClasses));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (const auto& block : *blocks) x = x + block->as<torch::nn::Linear>()->forward(x.relu());
    return head(x);
  }
  torch::nn::ModuleList blocks;
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Deep);

// What this process has beside its files' pages; of memory that processes share, its part.
std::int64_t memory_bytes() {
  std::ifstream lines("/proc/self/smaps_rollup");
  std::int64_t total = 0;
  for (std::string word; lines >> word;)
    if (std::int64_t kib = 0; (word == "Pss_Anon:" || word == "Pss_Shmem:") && lines >> kib)
      total += kib << 10;
  return total;
}

// The most of it, from the end of the first step, looked up every few milliseconds. The first
// step is left out, because every worker begins with the whole model.
class MostMemory : public cohort::Callback {
 public:
  explicit MostMemory(int64_t steps) : steps_(steps) {}

  void on_step_end(cohort::FitState& fit) override {
    if (fit.step == 1) watcher_ = std::jthread([this](std::stop_token stop) { watch(stop); });
    if (fit.step != steps_) return;
    watcher_ = {};
  }
  std::int64_t bytes() const { return most_; }

 private:
  void watch(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      most_ = std::max(most_, memory_bytes());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  int64_t steps_;
  std::int64_t most_ = 0;  // of the watcher while it runs
  std::jthread watcher_;
};

int run(int argc, char** argv) {
  auto context = cohort::init(argc, argv);
  const auto& words = context.arguments();
  if (words.size() != 3)
    throw cohort::InvalidInput("three words are expected", {.advice = "LAYERS WIDTH STEPS"});
  const int64_t layers = std::stoll(words[0]), width = std::stoll(words[1]),
                steps = std::stoll(words[2]), batch = kBatch * context.size();
  const std::int64_t before = memory_bytes();
  std::int64_t parameters = 0;
  auto most = std::make_shared<MostMemory>(steps);
  std::string weights;
  {
    torch::manual_seed(1);
    Deep net(layers, width);
    for (const auto& parameter : net->parameters()) parameters += parameter.numel();
    auto optimizer = std::make_shared<torch::optim::Adam>(net->parameters(), 1e-4);
    auto data = std::make_shared<cohort::TensorDataset>(
        torch::randn({batch * steps, width}), torch::randint(0, kClasses, {batch * steps}));
    cohort::Trainer trainer(context.strategy(), net, optimizer, cohort::cross_entropy,
                            {.batch_size = batch, .shard = context.flags().shard});
    weights = trainer.fit(data, {.epochs = 1, .callbacks = {most}, .progress = false}).weights;
  }
  const nlohmann::json line{{"rank", context.rank()},
                            {"parameters", parameters},
                            {"bytes", most->bytes() - before},
                            {"weights", weights}};
  fmt::print("measured {}\n", line.dump());
  std::fflush(stdout);
  context.leave();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::run_main("memory_bench_worker", [&] { return run(argc, argv); });
}

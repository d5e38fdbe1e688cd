#include "cohort/train/data/data_loader.h"

#include <algorithm>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/train/data/batch_plan.h"
#include "cohort/train/data/loader.h"

namespace cohort::train {
namespace {

// What it gives is pinned by the thread that loaded it.
class PinnedSource final : public SampleSource {
 public:
  explicit PinnedSource(SourcePtr source) : source_(std::move(source)) {}
  std::int64_t size() const override { return source_->size(); }
  bool is_sequential() const override { return source_->is_sequential(); }
  AnyBatch load(std::span<const std::int64_t> indices, const DrawKey& key) const override {
    return source_->load(indices, key).pin_memory();
  }

 private:
  SourcePtr source_;
};

SourcePtr for_device(SourcePtr source, torch::Device device) {
  if (!source)
    throw InvalidInput("DataLoader: there is no data set", {.advice = "Give one, not nullptr."});
  return device.is_cuda() ? std::make_shared<const PinnedSource>(std::move(source)) : source;
}

const DataLoaderOptions& checked_loader_options(const DataLoaderOptions& options, int size) {
  if (options.batch_size < 1)
    throw InvalidInput(
        fmt::format("DataLoader: batch_size must be at least 1, got {}", options.batch_size),
        {.advice = "Give the samples of a step, of all ranks together."});
  if (options.virtual_shards < 0 || (options.virtual_shards > 0 && options.virtual_shards < size))
    throw InvalidInput(fmt::format("DataLoader: virtual_shards is {}, and there are {} ranks",
                                   options.virtual_shards, size),
                       {.advice = "Give the number that the DistributedDataParallel has."});
  if (options.prefetch < 1 || options.workers < 0)
    throw InvalidInput(
        fmt::format("DataLoader: prefetch must be at least 1 and workers 0 or more, "
                    "got {} and {}",
                    options.prefetch, options.workers));
  return options;
}

int shards_in_all(const DataLoaderOptions& options, int size) {
  return options.virtual_shards > 0 ? options.virtual_shards : size;
}

}  // namespace

struct StepLoader::State {
  State(int rank, int ranks, SourcePtr given, DataLoaderOptions asked)
      : options(checked_loader_options(asked, ranks)),
        size(ranks),
        source(for_device(std::move(given), options.device)),
        plan({.samples = source->size(),
              .global_batch = options.batch_size,
              .shards = shards_in_all(options, ranks),
              .seed = options.seed,
              .shuffle = options.shuffle && !source->is_sequential(),
              .drop_last = options.drop_last}),
        own(shards_of(rank, ranks, shards_in_all(options, ranks))) {}

  void go_to(std::int64_t new_epoch, std::int64_t new_step) {
    loader.reset();
    epoch = new_epoch;
    step = new_step;
  }

  // Reads what is left of the epoch, own shard by own shard.
  void begin() {
    order = std::make_shared<const EpochPlan>(plan, epoch);
    const std::int64_t first = step, shards = own.size();
    loader = std::make_unique<Loader>(
        source, (plan.steps_per_epoch() - first) * shards,
        [order = order, first, shards, own = own](std::int64_t number) {
          const auto indices = order->indices(first + number / shards, own.begin + number % shards);
          return std::vector<std::int64_t>(indices.begin(), indices.end());
        },
        DrawKey{.seed = options.seed, .epoch = epoch},
        PrefetchOptions{.depth = options.prefetch * static_cast<int>(shards),
                        .threads = options.workers});
  }

  DataLoaderOptions options;
  int size;
  SourcePtr source;
  BatchPlan plan;
  ShardRange own;
  std::int64_t epoch = 0;
  std::int64_t step = 0;  // of the epoch, that comes next
  std::shared_ptr<const EpochPlan> order;
  std::unique_ptr<Loader> loader;  // null: not begun at this place
};

StepLoader::StepLoader(int rank, int size, SourcePtr source, DataLoaderOptions options)
    : state_(std::make_unique<State>(rank, size, std::move(source), options)) {}
StepLoader::~StepLoader() = default;
StepLoader::StepLoader(StepLoader&&) noexcept = default;
StepLoader& StepLoader::operator=(StepLoader&&) noexcept = default;

std::optional<StepLoader::Step> StepLoader::next() {
  State& state = *state_;
  if (state.step == state.plan.steps_per_epoch()) {
    state.go_to(state.epoch + 1, 0);
    return std::nullopt;
  }
  if (!state.loader) state.begin();
  Step made;
  for (std::int64_t i = 0; i < state.own.size(); ++i) {
    made.shards.push_back(state.loader->next()->to(state.options.device));
    made.weights.push_back(
        static_cast<double>(state.plan.positions(state.step, state.own.begin + i).size()));
  }
  made.total = static_cast<double>(state.plan.batch(state.step).size());
  ++state.step;
  return made;
}

void StepLoader::expect_whole_parts() const {
  const State& state = *state_;
  if (state.options.virtual_shards > 0)
    throw InvalidInput("DataLoader: with virtual_shards a step has several parts",
                       {.advice = "Iterate over loader.steps() and give each one to "
                                  "net.backward(batch, loss)."});
  const std::int64_t last = state.plan.samples_per_epoch() % state.options.batch_size;
  const std::int64_t fewest = last == 0 ? state.options.batch_size : last;
  if (state.plan.steps_per_epoch() > 0 && fewest < state.size)
    throw InvalidInput(
        fmt::format("DataLoader: {} batch has {} samples for {} ranks, so some would have none",
                    last == 0 ? "a" : "the last", fewest, state.size),
        {.advice = "Set drop_last, choose another batch_size, or iterate over loader.steps() and "
                   "give each one to net.backward(batch, loss)."});
}

void StepLoader::set_epoch(std::int64_t epoch) {
  if (epoch < 0) throw InvalidInput(fmt::format("DataLoader: epoch is {}", epoch));
  if (epoch != state_->epoch) state_->go_to(epoch, 0);
}
void StepLoader::restart() { state_->go_to(state_->epoch, 0); }
std::int64_t StepLoader::epoch() const { return state_->epoch; }
std::int64_t StepLoader::step() const { return state_->step; }
std::int64_t StepLoader::steps_per_epoch() const { return state_->plan.steps_per_epoch(); }

nlohmann::json StepLoader::position() const {
  const State& state = *state_;
  return {{"epoch", state.epoch},
          {"processed",
           std::min(state.step * state.options.batch_size, state.plan.samples_per_epoch())}};
}

void StepLoader::set_position(const nlohmann::json& position) {
  State& state = *state_;
  const auto epoch = position.at("epoch").get<std::int64_t>();
  const auto processed = position.at("processed").get<std::int64_t>();
  const std::int64_t samples = state.plan.samples_per_epoch(), batch = state.options.batch_size;
  if (epoch < 0 || processed < 0 || processed > samples ||
      (processed % batch != 0 && processed != samples))
    throw InvalidInput(
        fmt::format("DataLoader: position {} does not fit {} samples in batches of {}",
                    position.dump(), samples, batch),
        {.advice = "Go on with the data and the batch_size of before."});
  state.go_to(epoch, (processed + batch - 1) / batch);
}

}  // namespace cohort::train

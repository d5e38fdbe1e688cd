#include "cohort/parallel/tables/sharded_embedding.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "cohort/base/error.h"

namespace cohort::parallel {
namespace {

// Which rows a tensor of keys needs, and which of them stands at each position.
struct Lookup {
  std::vector<std::uint64_t> keys;  // ascending, once each
  std::vector<std::size_t> row_at;
};

Lookup look_up(const torch::Tensor& keys) {
  const torch::Tensor flat = keys.detach().to(torch::kCPU).contiguous().view({-1});
  const std::int64_t* values = flat.data_ptr<std::int64_t>();
  const auto count = static_cast<std::size_t>(flat.numel());
  std::vector<std::pair<std::uint64_t, std::size_t>> positions(count);
  for (std::size_t i = 0; i < count; ++i) positions[i] = {static_cast<std::uint64_t>(values[i]), i};
  std::sort(positions.begin(), positions.end());
  Lookup lookup;
  lookup.row_at.resize(count);
  for (const auto& [key, position] : positions) {
    if (lookup.keys.empty() || lookup.keys.back() != key) lookup.keys.push_back(key);
    lookup.row_at[position] = lookup.keys.size() - 1;
  }
  return lookup;
}

}  // namespace

struct ShardedEmbeddingImpl::State {
  ShardedEmbeddingOptions options;
  TableRows* rows = nullptr;
  std::mutex mutex;
  std::vector<ps::RowGradients> gradients;  // one a backward, in their order

  std::size_t width() const { return static_cast<std::size_t>(options.dimension); }

  void add(const Lookup& lookup, const torch::Tensor& gradient) {
    const torch::Tensor here = gradient.detach().to(torch::kCPU, torch::kFloat32).contiguous();
    const float* from = here.data_ptr<float>();
    ps::RowGradients sum{lookup.keys, std::vector<float>(lookup.keys.size() * width())};
    for (std::size_t row : lookup.row_at) {
      float* to = sum.values.data() + row * width();
      for (std::size_t i = 0; i < width(); ++i) to[i] += from[i];
      from += width();
    }
    std::lock_guard lock(mutex);
    gradients.push_back(std::move(sum));
  }
};

ShardedEmbeddingImpl::ShardedEmbeddingImpl(ShardedEmbeddingOptions options)
    : state_(std::make_shared<State>()) {
  if (options.dimension < 1 || options.admit_after < 1)
    throw InvalidInput(fmt::format("an embedding table of dimension {} that admits rows after {}",
                                   options.dimension, options.admit_after),
                       {.advice = "Both must be at least 1."});
  state_->options = std::move(options);
}

const ShardedEmbeddingOptions& ShardedEmbeddingImpl::options() const { return state_->options; }

ps::TableSpec ShardedEmbeddingImpl::table() const {
  const ShardedEmbeddingOptions& options = state_->options;
  return {.name = {},
          .dimension = options.dimension,
          .group = 0,
          .rows = options.rows,
          .admit_after = options.admit_after,
          .keep_for = options.keep_for,
          .initial_scale = options.initial_scale,
          .seed = options.seed};
}

void ShardedEmbeddingImpl::connect(TableRows& rows) { state_->rows = &rows; }

torch::Tensor ShardedEmbeddingImpl::forward(const torch::Tensor& keys) {
  const State& state = *state_;
  if (keys.scalar_type() != torch::kInt64)
    throw InvalidInput(
        fmt::format("keys of an embedding table are {}", c10::toString(keys.scalar_type())),
        {.advice = "Give int64."});
  if (state.rows == nullptr)
    throw InvalidInput("an embedding table is not connected to its rows",
                       {.advice = "Train the model with cohort::Trainer."});
  Lookup lookup = look_up(keys);
  std::vector<float> rows(lookup.keys.size() * state.width());
  state.rows->pull(lookup.keys, rows.data());

  torch::Tensor values = torch::empty({keys.numel(), state.options.dimension});
  float* to = values.data_ptr<float>();
  for (std::size_t row : lookup.row_at) {
    std::memcpy(to, rows.data() + row * state.width(), state.width() * sizeof(float));
    to += state.width();
  }
  values = values.to(keys.device());
  if (torch::GradMode::is_enabled() && is_training()) {
    values.set_requires_grad(true);
    values.register_hook([state = state_, lookup = std::move(lookup)](const torch::Tensor& grad) {
      state->add(lookup, grad);
    });
  }
  std::vector<std::int64_t> shape = keys.sizes().vec();
  shape.push_back(state.options.dimension);
  return values.view(shape);
}

ps::RowGradients ShardedEmbeddingImpl::take_gradients() {
  std::vector<ps::RowGradients> taken;
  {
    std::lock_guard lock(state_->mutex);
    taken.swap(state_->gradients);
  }
  if (taken.size() == 1) return std::move(taken.front());
  std::vector<const ps::RowGradients*> all;
  for (const ps::RowGradients& each : taken) all.push_back(&each);
  return ps::merge(all, state_->options.dimension, 1);
}

void ShardedEmbeddingImpl::pretty_print(std::ostream& stream) const {
  const ShardedEmbeddingOptions& options = state_->options;
  stream << fmt::format("ShardedEmbedding(dimension={}, rows={})", options.dimension,
                        options.rows == 0 ? std::string("any") : std::to_string(options.rows));
}

}  // namespace cohort::parallel

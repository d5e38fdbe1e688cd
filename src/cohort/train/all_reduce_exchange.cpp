#include "cohort/train/all_reduce_exchange.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/parallel/tensors/broadcast_state.h"
#include "cohort/parallel/tensors/ops.h"
#include "cohort/parallel/tensors/text_exchange.h"

namespace cohort::train {

AllReduceExchange::AllReduceExchange(const parallel::Replica& replica,
                                     std::chrono::milliseconds timeout,
                                     std::shared_ptr<parallel::BlockPool> own)
    : replica_(replica),
      timeout_(timeout),
      memory_(std::make_shared<parallel::GradientMemory>(*replica.group, std::move(own))) {}

void AllReduceExchange::agree(const nlohmann::json& values) {
  if (replica_.size == 1) return;
  auto texts = parallel::gather_texts(*replica_.group, values.dump());
  auto first = nlohmann::json::parse(texts.front());
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    auto other = nlohmann::json::parse(texts[rank]);
    for (const auto& [name, value] : first.items())
      if (value != other.at(name))
        throw InvalidInput(
            fmt::format("{} is {} on replica 0 and {} on replica {}", name, value.dump(),
                        other.at(name).dump(), rank),
            {.advice = "Start all workers with the same options, and with the whole data "
                       "set: a Trainer splits every batch itself."});
  }
}

std::string AllReduceExchange::text_of_first(const std::function<std::string()>& make) {
  std::string text = replica_.is_first() ? make() : std::string();
  return replica_.size > 1 ? parallel::broadcast_text(*replica_.group, text, 0) : text;
}

void AllReduceExchange::attach(const Training& training, std::vector<collective::ShardRange> runs,
                               std::function<void(std::size_t bucket)> on_bucket) {
  training_.emplace(training);
  runs_ = std::move(runs);
  const TrainerOptions& options = training.options;
  parameters_ = named(training.module.named_parameters());
  gradients_.emplace(*replica_.group, parameters_,
                     parallel::GradientSyncOptions{.bucket_bytes = options.bucket_bytes,
                                                   .shards = training.shards,
                                                   .runs = runs_,
                                                   .on_bucket = std::move(on_bucket),
                                                   .allow_unused = options.allow_unused,
                                                   .compression = options.compression,
                                                   .reducer = options.reducer,
                                                   .memory = memory_});
  buffers_.emplace(
      *replica_.group,
      options.deterministic ? named(training.module.named_buffers()) : parallel::NamedTensors{},
      training.shards, runs_);
  attach_tables(training.module);
}

void AllReduceExchange::attach_tables(torch::nn::Module& module) {
  const std::string table = parallel::LocalTables::first_table(module);
  if (replica_.size > 1 && !table.empty())
    throw InvalidInput(fmt::format("embedding table '{}' cannot be shared by {} replicas that add "
                                   "up gradients among themselves",
                                   table, replica_.size),
                       {.advice = "Use --distribution_strategy parameter_server."});
  tables_.emplace(module);
}

collective::ShardRange AllReduceExchange::own_shards() const {
  return {gradients_->first_shard(), gradients_->shard_count()};
}

void AllReduceExchange::take_values_of_first() {
  parallel::broadcast_parameters(*replica_.group, training_->module, 0);
  parallel::broadcast_optimizer_state(*replica_.group, training_->optimizer, 0);
}

void AllReduceExchange::take_buffers_of_first() {
  if (!training_->options.deterministic)
    parallel::broadcast_parameters(*replica_.group, named(training_->module.named_buffers()), 0);
}

void AllReduceExchange::begin_shard(int shard) {
  gradients_->begin_shard(shard);
  buffers_->begin_shard();
}

void AllReduceExchange::end_shard(double weight) {
  gradients_->end_shard();
  buffers_->end_shard(weight);
}

Sums AllReduceExchange::finish_step(const StepPlace&, std::span<const Sums> mine) {
  Sums sums = reduce_step(mine);
  apply_step();
  return sums;
}

Sums AllReduceExchange::reduce_step(std::span<const Sums> mine) {
  gradients_->finish(deadline());
  buffers_->reduce(deadline());
  return add_up(mine, gradients_->first_shard(), training_->shards);
}

void AllReduceExchange::apply_step() {
  buffers_->apply();
  const double scale = training_->loss_scale.scale();
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  gradient_norm_ = std::numeric_limits<double>::quiet_NaN();
  if (training_->loss_scale.unscale(parameters_)) {
    const double limit = training_->options.clip_norm;
    if (limit > 0 || training_->options.log_gradient_norm)
      gradient_norm_ = parallel::clip_gradients(parameters_, limit > 0 ? limit : kNoLimit);
    training_->optimizer.step();
    tables_->update(scale);
  } else {
    tables_->drop_gradients();
  }
}

std::vector<std::uint32_t> AllReduceExchange::shard_samples() const {
  std::vector<std::uint32_t> samples;
  for (const double count : item_samples_) samples.push_back(static_cast<std::uint32_t>(count));
  return samples;
}

std::vector<std::uint16_t> AllReduceExchange::shard_owners() const {
  std::vector<std::uint16_t> owners(static_cast<std::size_t>(training_->shards));
  std::uint16_t rank = 0;
  for (const auto& run : collective::runs_of(replica_.size, training_->shards, runs_))
    std::fill_n(owners.begin() + run.first, run.count, rank++);
  return owners;
}

void AllReduceExchange::add_logs(Logs& logs) {
  for (const auto& size : tables_->sizes())
    logs["rows_" + size.table] = static_cast<double>(size.rows);
}

Exchange::Agreed AllReduceExchange::follow(const Wishes& wishes) {
  follow_change(wishes, 0);
  return agreed_;
}

std::uint64_t AllReduceExchange::follow_change(const Wishes& wishes, std::uint64_t change) {
  constexpr std::int64_t kInterrupt = 1, kStop = 2;
  const std::int64_t stop = wishes.stop.empty()                               ? 0
                            : wishes.stop.starts_with(FitState::kInterrupted) ? kInterrupt
                                                                              : kStop;
  std::array<std::int64_t, 3> all{stop, wishes.broadcast, static_cast<std::int64_t>(change)};
  if (replica_.size > 1)
    replica_.group->all_reduce(std::span<std::int64_t>(all),
                               {.op = collective::ReduceOp::maximum, .deadline = deadline()});
  agreed_ = {.stop = all[0] != 0,
             .interrupted = all[0] == kInterrupt,
             .broadcast = all[1] != 0 && replica_.size > 1};
  return static_cast<std::uint64_t>(all[2]);
}

Range AllReduceExchange::share(std::int64_t items) const {
  return {items * replica_.rank / replica_.size, items * (replica_.rank + 1) / replica_.size};
}

// All are gathered (each is zero but at its owner) and added in their order: it does not matter who
// had which.
Sums AllReduceExchange::add_up(std::span<const Sums> mine, std::int64_t first, std::int64_t items) {
  const std::size_t metrics = training_->options.metrics.size();
  const std::size_t width = metrics + 2;
  std::vector<double> table(static_cast<std::size_t>(items) * width);
  auto row = table.begin() + first * static_cast<std::int64_t>(width);
  for (const Sums& sums : mine) {
    row = std::copy(sums.values.begin(), sums.values.end(), row);
    *row++ = sums.samples;
  }
  if (replica_.size > 1) {
    auto begin = std::chrono::steady_clock::now();
    replica_.group->all_reduce(std::span(table), {.deadline = deadline()});
    waited_ += std::chrono::steady_clock::now() - begin;
  }
  Sums total(metrics);
  item_samples_.clear();
  for (std::int64_t i = 0; i < items; ++i) {
    Sums sums(metrics);
    auto from = table.begin() + i * static_cast<std::int64_t>(width);
    std::copy_n(from, width - 1, sums.values.begin());
    sums.samples = from[static_cast<std::int64_t>(width) - 1];
    total.add(sums);
    item_samples_.push_back(sums.samples);
  }
  return total;
}

// A replica that has no rows learns from the others what rows look like.
torch::Tensor AllReduceExchange::gather_rows(const std::vector<torch::Tensor>& rows) {
  torch::Tensor mine = rows.empty() ? torch::Tensor() : torch::cat(rows);
  nlohmann::json row;
  if (mine.defined())
    row = {{"sizes", mine.sizes().slice(1).vec()}, {"type", static_cast<int>(mine.scalar_type())}};
  for (const std::string& text : parallel::gather_texts(*replica_.group, row.dump())) {
    auto other = nlohmann::json::parse(text);
    if (mine.defined() || other.is_null()) continue;
    auto sizes = other.at("sizes").get<std::vector<std::int64_t>>();
    sizes.insert(sizes.begin(), 0);
    mine = torch::empty(sizes, static_cast<torch::Dtype>(other.at("type").get<int>()));
  }
  return mine.defined() ? parallel::all_gather(*replica_.group, mine) : torch::empty({0});
}

std::chrono::nanoseconds AllReduceExchange::waited() const {
  return gradients_->waited() + waited_;
}

}  // namespace cohort::train

#include "cohort/train/sync/server_sync.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/collective/form.h"
#include "cohort/ps/model/placement.h"
#include "cohort/train/sync/named.h"
#include "cohort/train/sync/server_stats_log.h"

namespace cohort::train {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void refuse_with_servers(const std::string& what, const std::string& advice) {
  throw InvalidInput(what + " does not go with the strategy parameter_server", {.advice = advice});
}

void refuse_options(const TrainerOptions& options) {
  if (options.clip_norm > 0)
    refuse_with_servers(
        fmt::format("clip_norm {}", options.clip_norm),
        "Servers see one slice of the gradient each: use multi_worker_mirrored to clip.");
  if (options.log_gradient_norm)
    refuse_with_servers("log_gradient_norm",
                        "Servers see one slice of the gradient each: use multi_worker_mirrored.");
  if (options.precision == Precision::f16)
    refuse_with_servers("precision f16, whose loss is scaled,", "Use bf16 or f32.");
  if (options.ema.decay > 0)
    refuse_with_servers(fmt::format("ema.decay {}", options.ema.decay),
                        "The servers have the weights: use multi_worker_mirrored to average them.");
  if (options.reducer)
    refuse_with_servers("a reducer of one's own", "Use multi_worker_mirrored, or leave it out.");
  if (options.compression != parallel::Compression::none)
    refuse_with_servers("compression of gradients", "Use --ps_wire f16 or bf16.");
}

// A row of the tally is no longer (ps/wire/messages.cpp).
constexpr std::size_t kMostNumbers = 1024;

void refuse_large_metrics(const Sums& none) {
  if (none.width() > kMostNumbers)
    refuse_with_servers(fmt::format("metrics whose states have {} numbers", none.width()),
                        fmt::format("Servers add up {} numbers a step: give roc_auc fewer bins, "
                                    "leave a metric out, or use multi_worker_mirrored.",
                                    kMostNumbers));
}

// Servers take what comes from the workers as parts of the mean over the samples, before anyone
// knows the weight of the whole step.
void refuse_weight(const Sums& sums) {
  if (sums.weights[0] == sums.samples) return;
  refuse_with_servers(
      fmt::format("a loss of weight {} over {} samples", sums.weights[0], sums.samples),
      "Leave Loss::weight unset (the mean over samples), or use multi_worker_mirrored.");
}

}  // namespace

ServerSync::ServerSync(const parallel::Replica& replica, std::chrono::milliseconds timeout)
    : replica_(replica),
      servers_(*replica.servers),
      timeout_(timeout),
      own_group_(collective::make_group_of_one()) {}

ServerSync::~ServerSync() = default;

void ServerSync::attach(const SyncedModel& trained) {
  refuse_options(trained.options);
  refuse_large_metrics(trained.none);
  servers_.claim();
  trained_.emplace(trained);
  total_ = trained.none;
  const collective::ShardRange own =
      collective::shards_of(replica_.rank, replica_.size, trained.shards);
  plan_.emplace(trained.shards, own);
  gradients_.emplace(
      *own_group_, named(trained.module.named_parameters()),
      [this](std::size_t bucket, std::span<const std::byte* const> partials) {
        servers_.client(deadline()).push(static_cast<int>(bucket), partials);
      },
      parallel::GradientPushOptions{.bucket_bytes = trained.options.bucket_bytes,
                                    .shards = trained.shards,
                                    .rank = replica_.rank,
                                    .size = replica_.size,
                                    .allow_unused = trained.options.allow_unused});
  buffers_.emplace(*plan_, named(trained.module.named_buffers()), true);
  model_.emplace(*gradients_, *buffers_, trained.optimizer);
  tables_.emplace(trained.module);
}

collective::ShardRange ServerSync::own_shards() const {
  return {gradients_->first_shard(), gradients_->shard_count()};
}

ps::ModelSpec ServerSync::spec() const {
  ps::ModelSpec spec = model_->spec();
  tables_->add_to(spec);
  spec.policy = servers_.flags().policy();
  spec.workers = replica_.size;
  spec.shards = trained_->shards;
  spec.agreement = agreement_;
  return spec;
}

std::string ServerSync::dry_run() const {
  if (!servers_.flags().dry_run) return {};
  const ps::ModelSpec model = spec();
  return ps::describe(model, ps::place(model, servers_.count()), servers_.count());
}

std::int64_t ServerSync::begin(std::int64_t step) {
  ++fit_;
  stop_.clear();
  if (begun_) return static_cast<std::int64_t>(sequence_);
  std::optional<ps::InitialState> initial;
  if (replica_.is_first()) {
    initial = model_->initial_state(step);
    initial->table_pieces = tables_->pieces_of(std::exchange(restored_, {}));
  }
  sequence_ = client().begin(spec(), initial ? &*initial : nullptr, deadline());
  if (sequence_ < static_cast<std::uint64_t>(step))
    throw InvalidInput(
        fmt::format(
            "the checkpoint to resume has {} steps, but the servers went on with a training "
            "of {} steps that they found in the output folder",
            step, sequence_),
        {.advice = "Take another --output, or delete its ps-I folders, to begin with the "
                   "checkpoint."});
  begun_ = true;
  knows_total_ = sequence_ == static_cast<std::uint64_t>(step);
  if (servers_.flags().policy().mode == ps::Policy::Mode::sync) {
    // A step that was cut short is made again from what it was begun with.
    client().read_after(model_->runs(), sequence_, deadline());
    model_->place_values();
  } else {
    read(0);
  }
  tables_->connect(
      client(), [this] { return sequence_ + 1; }, timeout_);
  if (!knows_total_)
    log::info("worker {} goes on after step {} of a training under way", replica_.rank, sequence_);
  return static_cast<std::int64_t>(sequence_);
}

void ServerSync::read(std::uint64_t clock) {
  const Clock::time_point from = Clock::now();
  client().read(model_->runs(), clock, deadline());
  waited_ += Clock::now() - from;
  model_->place_values();
}

void ServerSync::begin_step(const StepInfo& info) {
  std::vector<double> rates = model_->learning_rates();
  tables_->add_rates(rates);
  client().begin_step(
      {.sequence = static_cast<std::uint64_t>(info.step) + 1,
       .weight = static_cast<double>(info.own_samples) / static_cast<double>(info.samples),
       .learning_rates = std::move(rates)});
}

void ServerSync::begin_shard(int shard) {
  gradients_->begin_shard(shard);
  if (model_->has_buffers()) buffers_->begin_shard();
}

void ServerSync::end_shard(double weight) {
  gradients_->end_shard();
  if (model_->has_buffers()) buffers_->end_shard(weight);
}

StepResult ServerSync::finish_step(const StepInfo& info, std::span<const Sums> mine) {
  gradients_->finish(deadline());
  if (model_->has_buffers()) {
    buffers_->end_step();
    // Alone in its update, a worker without samples would put nothing in the buffers' place.
    const bool alone = servers_.flags().policy().mode != ps::Policy::Mode::sync;
    client().push(model_->buffer_block(),
                  info.own_samples == 0 && alone
                      ? model_->unchanged_buffers()
                      : model_->buffer_partials(static_cast<double>(info.own_samples) /
                                                static_cast<double>(info.samples)));
  }
  tables_->push(client());
  ps::StepEnd end{.sequence = static_cast<std::uint64_t>(info.step) + 1,
                  .tally = {},
                  .round = fit_,
                  .stop = requested_stop_};
  // What the servers leave out of the gradient is left out of the sums.
  std::vector<Sums> counted(mine.begin(), mine.end());
  for (const Sums& sums : mine) refuse_weight(sums);
  if (drops_not_finite())
    for (Sums& sums : counted)
      if (!std::isfinite(sums.values[0])) sums = sums.none();
  for (const Sums& sums : counted) end.tally.push_back(sums.row());
  const Clock::time_point from = Clock::now();
  const ps::StepOutcome outcome = client().finish_step(end, model_->runs(), deadline());
  waited_ += Clock::now() - from;
  model_->place_values();
  sequence_ = has_backups() ? std::max(end.sequence, outcome.version) : end.sequence;
  if (stop_.empty()) stop_ = outcome.stop;
  return {.sums = sums_of(outcome, counted),
          .steps_done = static_cast<std::int64_t>(sequence_),
          .may_be_not_finite = drops_not_finite()};
}

// The step's sums where the servers have them; else what has come to their sums since the last
// step; else this worker's own.
Sums ServerSync::sums_of(const ps::StepOutcome& outcome, std::span<const Sums> mine) {
  Sums own = trained_->none;
  for (const Sums& sums : mine) own.add(sums);
  if (outcome.tally.size() != own.width()) return own;
  Sums told = own;
  told.set_row(outcome.tally.data());
  if (outcome.whole) return told;
  if (servers_.flags().policy().mode == ps::Policy::Mode::sync) return own;
  Sums since = told;
  std::vector<double> difference = told.row();
  const std::vector<double> before = total_.row();
  for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= before[i];
  since.set_row(difference.data());
  total_ = told;
  // A server that was started anew counts from zero.
  const bool usable = std::exchange(knows_total_, true) && since.samples >= own.samples;
  return usable ? since : own;
}

bool ServerSync::has_backups() const {
  const ps::Policy policy = servers_.flags().policy();
  return policy.mode == ps::Policy::Mode::sync && policy.aggregate > 0 &&
         policy.aggregate < replica_.size;
}

bool ServerSync::drops_not_finite() const {
  return servers_.flags().not_finite == ps::Policy::NotFinite::drop;
}

void ServerSync::finish_training() {
  if (stop_.empty() || servers_.flags().policy().mode == ps::Policy::Mode::sync) {
    read(sequence_);
  } else {
    // Workers stopped at steps of their own: there is no clock that all of them reach.
    if (!servers_.wait_for_all(fmt::format("stopped-{}", fit_), deadline()))
      log::warning("not all workers have stopped; the weights are as of now");
    read(0);
  }
  if (replica_.is_first()) write_stats();
}

parallel::TableImages ServerSync::gather_state() {
  ps::StateSink sink = model_->state_sink();
  parallel::TableImages images = tables_->no_images();
  sink.table = [&](int table, std::string_view piece) {
    images.at(tables_->name(table)).emplace_back(piece);
  };
  sink.restart = [&] { images = tables_->no_images(); };
  client().snapshot(sink, deadline());
  model_->finish_state();
  return images;
}

void ServerSync::restore_tables(parallel::TableImages images, std::int64_t) {
  parallel::expect_tables(images, tables_->names());
  restored_ = std::move(images);
}

void ServerSync::write_stats() {
  if (servers_.output().empty()) return;
  const ServerStatsLog stats(client().stats(deadline()));
  stats.write(std::filesystem::path(servers_.output()) / "ps-stats.json");
}

void ServerSync::refresh() {
  if (begun_) read(0);
}

}  // namespace cohort::train

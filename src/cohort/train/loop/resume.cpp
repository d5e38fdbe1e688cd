#include "cohort/train/loop/resume.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/text.h"
#include "cohort/train/options/checks.h"

namespace cohort::train {
namespace {

constexpr const char* kModel = "model";
constexpr const char* kOptimizer = "optimizer";  // of phases: "optimizer_<name>"
constexpr const char* kTables = "tables";
constexpr const char* kPhases = "phases";  // their names, in `extra`
constexpr const char* kAverage = "ema";
constexpr const char* kAverageUpdates = "ema_updates";

std::string metric_names(const std::vector<Metric>& metrics) {
  std::vector<std::string> names;
  for (const Metric& metric : metrics) {
    const std::vector<std::string> logs = metric.log_names();
    names.insert(names.end(), logs.begin(), logs.end());
    if (logs.empty()) names.push_back(metric.name);
  }
  return join(names, ",");
}

// Everything of a trainer that changes what is computed, by name.
nlohmann::json values_of(const TrainerOptions& trainer) {
  return {{"batch_size", trainer.batch_size},
          {"virtual_shards", trainer.virtual_shards},
          {"seed", trainer.seed},
          {"deterministic", trainer.deterministic},
          {"accumulate", trainer.accumulate},
          {"clip_norm", trainer.clip_norm},
          {"precision", static_cast<int>(trainer.precision)},
          {"compression", static_cast<int>(trainer.compression)},
          {"bucket_bytes", trainer.bucket_bytes},
          {"allow_unused", trainer.allow_unused},
          {"metrics", metric_names(trainer.metrics)},
          {"ema_decay", trainer.ema.decay},
          {"ema_ramp", trainer.ema.ramp}};
}

void expect_same(const char* what, std::uint64_t saved, std::uint64_t asked) {
  if (saved == asked) return;
  throw InvalidInput(
      fmt::format("the checkpoint was made with {} {}, this training has {}", what, saved, asked),
      {.advice = fmt::format("Give {} {}, or begin a new folder.", what, saved)});
}

nlohmann::json save(const Sums& sums) {
  return {{"values", sums.values},
          {"weights", sums.weights},
          {"samples", sums.samples},
          {"counts", sums.counts}};
}

// `sums`: none, of the shape that they must have. Older checkpoints have no weights, which are the
// samples, and no states of metrics: these begin anew.
Sums load_sums(const nlohmann::json& saved, Sums sums) {
  const auto samples = saved.at("samples").get<double>();
  auto values = saved.at("values").get<std::vector<double>>();
  if (!saved.contains("counts")) {
    sums.values[0] = values.at(0);
    sums.weights[0] = samples;
    sums.samples = samples;
    if (samples > 0 && sums.width() > 3)
      log::info("metrics of the epoch under way begin anew: an earlier version has saved them");
    return sums;
  }
  const auto expect = [&](const char* what, std::size_t had, std::size_t has) {
    if (had != has)
      throw InvalidInput(
          fmt::format("the checkpoint was made with {} {}, this training has {}", had, what, has),
          {.advice = fmt::format("Use the same {}, or begin a new folder.", what)});
  };
  Sums found = sums;
  found.values = std::move(values);
  found.weights = saved.at("weights").get<std::vector<double>>();
  found.samples = samples;
  found.counts = saved.at("counts").get<std::vector<double>>();
  expect("phases", found.weights.size(), sums.weights.size());
  if (!found.has_shape_of(sums))
    throw InvalidInput("the checkpoint was made with other metrics: their states do not fit",
                       {.advice = "Use the same metrics, or begin a new folder."});
  return found;
}

void expect_phases(const std::vector<std::string>& saved, const std::vector<std::string>& asked) {
  if (saved == asked) return;
  const auto text = [](const std::vector<std::string>& names) {
    return names.empty() ? "one phase" : fmt::format("the phases {}", join(names, ", "));
  };
  throw InvalidInput(fmt::format("the checkpoint was made with {}, this training has {}",
                                 text(saved), text(asked)),
                     {.advice = "Use the same phases, or begin a new folder."});
}

std::string optimizer_part(const std::vector<std::string>& phases, std::size_t i) {
  return phases.empty() ? kOptimizer : fmt::format("{}_{}", kOptimizer, phases[i]);
}

// The scale and the good steps of each phase.
using LossScales = std::vector<std::pair<double, int>>;

LossScales loss_scales_from(const nlohmann::json& extra) {
  if (extra.contains("loss_scales")) return extra.at("loss_scales").get<LossScales>();
  return {{extra.at("loss_scale").get<double>(), extra.at("good_steps").get<int>()}};
}

LossScales save_loss_scales(ReplicaTrainer& trainer) {
  LossScales scales;
  for (std::size_t i = 0; i < trainer.phases(); ++i)
    scales.emplace_back(trainer.loss_scale(i).scale(), trainer.loss_scale(i).good_steps());
  return scales;
}

std::optional<Checkpoint> load_own(const ResumeSources& sources) {
  if (sources.own.empty()) return std::nullopt;
  return load_latest(sources.own, [&](const TrainingState& state) {
    return state.step > sources.after && state.extra.value(kJob, std::string()) == sources.job;
  });
}

std::optional<Checkpoint> load_asked(const std::string& path) {
  if (path.empty()) return std::nullopt;
  const std::filesystem::path asked(path);
  if (asked.extension() == ".json" || std::filesystem::is_regular_file(asked))
    return load_checkpoint(asked);
  if (asked.extension() == ".safetensors")
    throw InvalidInput(fmt::format("resume is {}, which is no checkpoint", path),
                       {.advice = "Give the step-*.json beside it or the folder; "
                                  "cohort::load_weights() takes weights alone."});
  return load_latest(asked);
}

}  // namespace

std::size_t gradient_callbacks(std::span<const std::shared_ptr<Callback>> callbacks) {
  return static_cast<std::size_t>(
      std::count_if(callbacks.begin(), callbacks.end(), [](const auto& callback) {
        return dynamic_cast<const GradientCallback*>(callback.get()) != nullptr;
      }));
}

nlohmann::json agreed_values(const TrainerOptions& trainer, const FitOptions& fit,
                             const SampleSource& data) {
  nlohmann::json values = values_of(trainer);
  const auto identity = [&](const SampleSource& set) {
    return identity_of(set, trainer.seed, trainer.deterministic);
  };
  values.update({{"shard", parallel::to_string(trainer.shard)},
                 {"epochs", fit.epochs},
                 {"steps_per_epoch", fit.steps_per_epoch},
                 {"max_steps", fit.max_steps},
                 {"shuffle", fit.shuffle},
                 {"resume", fit.resume.empty() ? "not set" : "set"},
                 {"training data", identity(data)},
                 {"validation data", fit.validation ? identity(*fit.validation) : nullptr},
                 {"validation_batch_size", fit.validation_batch_size},
                 {"validate_every", fit.validate_every},
                 {"fast_dev_run", fit.fast_dev_run},
                 {"read_every", fit.read_every},
                 {"tf32", trainer.tf32},
                 {"channels_last", trainer.channels_last},
                 {"gradient callbacks", gradient_callbacks(fit.callbacks)}});
  return values;
}

ResumePoint ResumePoint::find(Agreement& agreement, int replicas, const ResumeSources& sources,
                              const TrainerOptions& options) {
  ResumePoint point;
  if (sources.own.empty() && sources.asked.empty()) return point;
  const std::string text = agreement.broadcast_text([&]() -> std::string {
    auto own = load_own(sources);
    const bool is_own = own.has_value();
    point.checkpoint_ = is_own ? std::move(own) : load_asked(sources.asked);
    if (point.checkpoint_)
      return nlohmann::json{{"own", is_own}, {"state", to_json(point.checkpoint_->state)}}.dump();
    if (sources.after == 0)
      log::info("{} has no checkpoint yet: training begins from the start",
                sources.asked.empty() ? sources.own : sources.asked);
    return {};
  });
  if (text.empty()) return point;
  const auto found = nlohmann::json::parse(text);
  point.is_own_ = found.at("own").get<bool>();
  point.state_ = training_state_from(found.at("state"));
  expect_same("seed", point.state_->seed, options.seed);
  expect_same("batch_size", static_cast<std::uint64_t>(point.state_->global_batch_size),
              static_cast<std::uint64_t>(options.batch_size));
  if (options.virtual_shards > 0)
    expect_same("virtual_shards", static_cast<std::uint64_t>(point.state_->virtual_shards),
                static_cast<std::uint64_t>(options.virtual_shards));
  if (point.state_->virtual_shards < replicas)
    throw InvalidInput(fmt::format("the checkpoint's {} virtual shards are too few for {} replicas",
                                   point.state_->virtual_shards, replicas),
                       {.advice = "Resume with fewer workers, or begin anew with more shards."});
  return point;
}

nlohmann::json ResumePoint::callback_states() const { return state_.value().callbacks; }

int ResumePoint::shards(int otherwise) const {
  return state_ ? static_cast<int>(state_->virtual_shards) : otherwise;
}

std::optional<std::string> ResumePoint::stop_reason() const {
  if (!is_own_ || !state_->extra.contains(kStopReason)) return std::nullopt;
  return state_->extra.at(kStopReason).get<std::string>();
}

Position ResumePoint::restore(ReplicaTrainer& trainer, const Position& otherwise,
                              std::span<const std::shared_ptr<Callback>> callbacks) const {
  if (!state_) return otherwise;
  if (trainer.shards() != state_->virtual_shards)
    throw InvalidInput(
        fmt::format("this trainer has begun with {} virtual shards, the checkpoint has {}",
                    trainer.shards(), state_->virtual_shards),
        {.advice = "Resume before anything else is done with the trainer."});
  expect_phases(state_->extra.value(kPhases, std::vector<std::string>()), trainer.phase_names());
  if (checkpoint_) {
    restore_tensors(trainer, *checkpoint_);
    trainer.sync().steps->restore_tables(pieces_of(*checkpoint_, kTables), state_->step);
  }
  return restore_state(trainer, *state_, callbacks);
}

void restore_tensors(ReplicaTrainer& trainer, const Checkpoint& checkpoint) {
  const ParameterNames names(trainer.model().module());
  const std::vector<std::string> phases = trainer.phase_names();
  restore_module(checkpoint, kModel, trainer.model().module());
  for (std::size_t i = 0; i < trainer.phases(); ++i)
    restore_optimizer(checkpoint, optimizer_part(phases, i), trainer.optimizer(i), names);
  if (const TensorMap averages = tensors_of(checkpoint, kAverage); !averages.empty())
    trainer.average().restore(averages);
}

Position restore_state(ReplicaTrainer& trainer, const TrainingState& state,
                       std::span<const std::shared_ptr<Callback>> callbacks) {
  const auto& extra = state.extra;
  trainer.learning_rate().set_base(extra.at("base_learning_rate").get<double>());
  const LossScales scales = loss_scales_from(extra);
  for (std::size_t i = 0; i < trainer.phases() && i < scales.size(); ++i)
    trainer.loss_scale(i).restore(scales[i].first, scales[i].second);
  trainer.average().set_updates(extra.value(kAverageUpdates, std::int64_t{0}));
  for (const auto& [name, callback] : with_state(callbacks))
    if (state.callbacks.contains(name)) callback->load_state(state.callbacks.at(name));
  return {.epoch = state.epoch,
          .step_in_epoch = state.steps_in_epoch,
          .step = state.step,
          .sums = load_sums(extra.at("epoch_sums"), trainer.no_sums()),
          .weight_units = extra.value("weight_units", std::vector<double>())};
}

Checkpoint make_checkpoint(ReplicaTrainer& trainer, const Position& position,
                           const TrainerOptions& options,
                           std::span<const std::shared_ptr<Callback>> callbacks) {
  const parallel::TableImages tables = trainer.sync().steps->gather_state();
  for (std::size_t i = 1; i < trainer.phases(); ++i) trainer.sync().phase(i).gather_state();
  Checkpoint checkpoint;
  checkpoint.state = {.step = position.step,
                      .epoch = position.epoch,
                      .steps_in_epoch = position.step_in_epoch,
                      .samples_in_epoch = static_cast<std::int64_t>(position.sums.samples),
                      .seed = options.seed,
                      .virtual_shards = trainer.shards(),
                      .global_batch_size = options.batch_size,
                      .extra = {{"base_learning_rate", trainer.learning_rate().base()},
                                {"loss_scale", trainer.loss_scale().scale()},
                                {"good_steps", trainer.loss_scale().good_steps()},
                                {"epoch_sums", save(position.sums)},
                                {"weight_units", position.weight_units}}};
  const std::vector<std::string> phases = trainer.phase_names();
  if (!phases.empty()) {
    checkpoint.state.extra["loss_scales"] = save_loss_scales(trainer);
    checkpoint.state.extra[kPhases] = phases;
  }
  const nlohmann::json values = values_of(options);
  for (const auto& [name, value] : values.items()) checkpoint.state.config[name] = value.dump();
  for (const auto& [name, callback] : with_state(callbacks))
    checkpoint.state.callbacks[name] = callback->save_state();
  add_module(checkpoint, kModel, trainer.model().module());
  const ParameterNames names(trainer.model().module());
  for (std::size_t i = 0; i < trainer.phases(); ++i)
    add_optimizer(checkpoint, optimizer_part(phases, i), trainer.optimizer(i), names);
  if (trainer.average().updates() > 0) {
    checkpoint.state.extra[kAverageUpdates] = trainer.average().updates();
    add_tensors(checkpoint, kAverage, trainer.average().tensors());
  }
  if (!tables.empty()) add_pieces(checkpoint, kTables, tables);
  for (std::size_t i = 0; i < trainer.phases(); ++i) trainer.sync().phase(i).release_state();
  return checkpoint;
}

}  // namespace cohort::train

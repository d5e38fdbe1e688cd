#include "cohort/train/trainer.h"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "cohort/base/error.h"
#include "cohort/parallel/cuda/device_streams.h"
#include "cohort/parallel/cuda/stream_scope.h"
#include "cohort/parallel/tensors/named_call.h"
#include "cohort/train/callbacks/default_callbacks.h"
#include "cohort/train/checkpoint/checkpoint.h"
#include "cohort/train/checkpoint/checkpoint_files.h"
#include "cohort/train/checkpoint/module_state.h"
#include "cohort/train/checkpoint/optimizer_clone.h"
#include "cohort/train/elastic/view_driver.h"
#include "cohort/train/loop/elastic_fit.h"
#include "cohort/train/loop/fit_loop.h"
#include "cohort/train/loop/replica_trainer.h"
#include "cohort/train/loop/resume.h"
#include "cohort/train/options/checks.h"
#include "cohort/train/sync/elastic_sync.h"
#include "cohort/train/sync/replica_sync.h"

namespace cohort::train {
namespace {

FitOptions one_step_of(FitOptions options, std::int64_t steps_done) {
  options.epochs = std::max<std::int64_t>(options.epochs, 1);
  options.steps_per_epoch = 1;
  options.max_steps = steps_done + 1;
  options.resume.clear();
  return options;
}

}  // namespace

struct Trainer::State {
  std::shared_ptr<parallel::Strategy> strategy;
  Model model;
  std::vector<Phase> phases;
  MakeOptimizer make_optimizer;  // or nothing
  TrainerOptions options;
  int threads = 1;  // that LibTorch has outside of run()
  // By local index, made by the first run.
  std::vector<std::optional<c10::Stream>> streams;
  std::vector<std::unique_ptr<ReplicaSync>> syncs;
  std::vector<std::unique_ptr<ReplicaTrainer>> replicas;
  ElasticSync* elastic_sync = nullptr;  // of the one replica, in an elastic job
  Position position;
  std::map<std::string, torch::Tensor> metric_tensors = {};   // of the last evaluate()
  nlohmann::json callback_states = nlohmann::json::object();  // at the last fit()'s end, or loaded
  bool loaded = false;                                        // and no fit() since
  std::mutex making;

  // On every local replica. The strategy computes with a fixed number of threads, for the same
  // bits; a training that gives them up takes what the program has.
  void run(const char* call, const std::function<void(const parallel::Replica&)>& body) {
    parallel::named_call(call, [&] {
      strategy->run([&](const parallel::Replica& replica) {
        if (!options.deterministic)
          at::set_num_threads(std::max(1, threads / strategy->local_replicas()));
        std::optional<parallel::StreamScope> on_own_stream;
        if (const auto& stream = stream_of(replica)) on_own_stream.emplace(*stream);
        body(replica);
      });
    });
  }

  // Of a GPU: not the default stream, whose work cannot be recorded as a CUDA graph.
  const std::optional<c10::Stream>& stream_of(const parallel::Replica& replica) {
    auto& stream = streams[static_cast<std::size_t>(replica.local)];
    if (!stream && replica.device.is_cuda() && parallel::built_with_cuda())
      stream = parallel::stream_from_pool(replica.device);
    return stream;
  }

  ReplicaSync& sync_of(const parallel::Replica& replica) {
    auto& sync = syncs[static_cast<std::size_t>(replica.local)];
    if (!sync && replica.elastic != nullptr) {
      expect(phases.size() == 1,
             fmt::format("{} phases do not go with an elastic job", phases.size()),
             "Start the job without --elastic, or use one phase.");
      auto made = make_elastic_sync(replica, options.step_timeout);
      sync = std::move(made.sync);
      elastic_sync = made.steps;
    } else if (!sync) {
      sync = make_replica_sync(replica, options.step_timeout, phases.size());
    }
    return *sync;
  }

  // The replica's part, made at the first call. On the replica's thread; collective.
  ReplicaTrainer& part_of(const parallel::Replica& replica, int shards) {
    auto& part = replicas[static_cast<std::size_t>(replica.local)];
    if (!part) {
      ReplicaSync& sync = sync_of(replica);
      sync.steps->require_trainable(model.module());
      auto [own_model, own_phases] = model_and_phases(replica);
      TrainerOptions own_options = options;
      own_options.virtual_shards = shards;
      part = std::make_unique<ReplicaTrainer>(sync, own_model, own_phases, own_options,
                                              strategy->local_replicas() > 1);
    }
    return *part;
  }

  // The same outside of fit(), which makes the replicas alike by itself.
  ReplicaTrainer& ready_part_of(const parallel::Replica& replica) {
    const bool is_new = replicas[static_cast<std::size_t>(replica.local)] == nullptr;
    ReplicaTrainer& part = part_of(replica, default_shards());
    if (is_new) part.broadcast_from_first();
    return part;
  }

  // The first replica's are those that the user gave; the others' are copies. Copying reads what
  // the first one moves to its device: one at a time.
  std::pair<Model, std::vector<Phase>> model_and_phases(const parallel::Replica& replica) {
    std::lock_guard lock(making);
    if (replica.local == 0) {
      model.module().to(replica.device);
      return {model, phases};
    }
    Model copy = model.replicate(replica.device);
    std::vector<Phase> copies = phases;
    for (Phase& phase : copies)
      phase.optimizer = make_optimizer
                            ? make_optimizer(copy.module().parameters())
                            : clone_optimizer(*phase.optimizer, model.module().parameters(),
                                              copy.module().parameters());
    return {copy, copies};
  }

  std::unique_ptr<FitLoop> begin_fit(ReplicaSync& sync, const FitInputs& inputs);
  std::unique_ptr<FitLoop> join_fit(ReplicaSync& sync, const FitInputs& inputs, int shards);
  FitResult fit_fixed(ReplicaSync& sync, const FitInputs& inputs);
  FitResult fit_elastic(ReplicaSync& sync, const FitInputs& inputs);
  ResumeSources sources_of(const FitOptions& fit) const;

  int default_shards() const {
    return options.virtual_shards > 0 ? options.virtual_shards : strategy->shards();
  }
};

Trainer::Trainer(std::shared_ptr<parallel::Strategy> strategy, Model model,
                 std::vector<Phase> phases, TrainerOptions options)
    : state_(new State{.strategy = std::move(strategy),
                       .model = std::move(model),
                       .phases = std::move(phases),
                       .make_optimizer = {},
                       .options = std::move(options),
                       .threads = at::get_num_threads(),
                       .streams = {},
                       .syncs = {},
                       .replicas = {},
                       .elastic_sync = nullptr,
                       .position = {},
                       .callback_states = nlohmann::json::object(),
                       .loaded = false,
                       .making = {}}) {
  State& state = *state_;
  expect(state.strategy != nullptr, "there is no strategy", "Give context.strategy().");
  check(state.options, *state.strategy);
  check_phases(state.phases, state.model.module(), state.options.metrics);
  state.streams.resize(static_cast<std::size_t>(state.strategy->local_replicas()));
  state.syncs.resize(static_cast<std::size_t>(state.strategy->local_replicas()));
  state.replicas.resize(static_cast<std::size_t>(state.strategy->local_replicas()));
  state.position.sums = Sums(state.options.metrics, state.phases.size());
}

Trainer::Trainer(std::shared_ptr<parallel::Strategy> strategy, Model model,
                 std::shared_ptr<torch::optim::Optimizer> optimizer, TrainingStep step,
                 TrainerOptions options)
    : Trainer(std::move(strategy), std::move(model),
              std::vector<Phase>{{"", std::move(optimizer), std::move(step)}}, std::move(options)) {
}

Trainer::Trainer(std::shared_ptr<parallel::Strategy> strategy, Model model,
                 MakeOptimizer make_optimizer, TrainingStep step, TrainerOptions options)
    : Trainer(std::move(strategy), model,
              std::shared_ptr<torch::optim::Optimizer>(make_optimizer(model.module().parameters())),
              std::move(step), std::move(options)) {
  state_->make_optimizer = std::move(make_optimizer);
}

Trainer::~Trainer() = default;

FitResult Trainer::fit(SourcePtr data, FitOptions options) {
  State& state = *state_;
  expect_samples(data.get(), "the data set of fit()");
  check(options, *data, state.options.batch_size);
  if (options.fast_dev_run) options = one_step_of(std::move(options), state.position.step);
  const auto callbacks = callbacks_in_order(options.callbacks, options.progress);
  const std::size_t changing = gradient_callbacks(callbacks);
  const nlohmann::json agreed = agreed_values(state.options, options, *data);
  FitControl control;
  FitResult result;
  state.run("fit()", [&](const parallel::Replica& replica) {
    ReplicaSync& sync = state.sync_of(replica);
    sync.agreement->agree(agreed);
    const FitInputs inputs{.strategy = *state.strategy,
                           .data = data,
                           .options = options,
                           .trainer_options = state.options,
                           .callbacks = replica.local == 0
                                            ? std::span<const std::shared_ptr<Callback>>(callbacks)
                                            : std::span<const std::shared_ptr<Callback>>(),
                           .control = control,
                           .changes_gradients = changing > 0};
    expect(
        changing == 0 || replica.servers == nullptr,
        fmt::format("{} GradientCallbacks do not go with the strategy parameter_server", changing),
        "Servers make the update: use multi_worker_mirrored, or another event.");
    const bool members_change = state.elastic_sync && !state.elastic_sync->members_are_final();
    FitResult mine =
        members_change ? state.fit_elastic(sync, inputs) : state.fit_fixed(sync, inputs);
    if (replica.local == 0) result = std::move(mine);
  });
  state.callback_states = nlohmann::json::object();
  for (const auto& [name, callback] : with_state(callbacks))
    state.callback_states[name] = callback->save_state();
  state.loaded = false;
  return result;
}

// A loop that begins where the checkpoint or the last fit() ended; null: a dry run, which was
// printed. Collective.
std::unique_ptr<FitLoop> Trainer::State::begin_fit(ReplicaSync& sync, const FitInputs& inputs) {
  const parallel::Replica& replica = sync.replica;
  const auto checkpoint =
      ResumePoint::find(*sync.agreement, replica.size, sources_of(inputs.options), options);
  ReplicaTrainer& part = part_of(replica, checkpoint.shards(default_shards()));
  Position from = checkpoint.restore(part, position, inputs.callbacks);
  if (loaded && !checkpoint.found())
    for (const auto& [name, callback] : with_state(inputs.callbacks))
      if (callback_states.contains(name)) callback->load_state(callback_states.at(name));
  if (const std::string plan = sync.steps->dry_run(); !plan.empty()) {
    if (replica.is_first()) std::fputs(plan.c_str(), stdout);
    if (replica.local == 0) position = from;
    return nullptr;
  }
  auto loop = std::make_unique<FitLoop>(part, inputs, from, sync.steps->begin(from.step));
  if (const auto why = checkpoint.stop_reason()) loop->stop_as_before(*why);
  return loop;
}

// A loop for a training that others have under way.
std::unique_ptr<FitLoop> Trainer::State::join_fit(ReplicaSync& sync, const FitInputs& inputs,
                                                  int shards) {
  return std::make_unique<FitLoop>(part_of(sync.replica, shards), inputs, position, position.step);
}

FitResult Trainer::State::fit_fixed(ReplicaSync& sync, const FitInputs& inputs) {
  if (elastic_sync) elastic_sync->begin_ledger(position.step);
  const auto loop = begin_fit(sync, inputs);
  if (!loop) return {.history = {}, .step = position.step, .stopped = "a dry run", .weights = {}};
  FitResult result = loop->run();
  if (sync.replica.local == 0) position = loop->position();
  return result;
}

FitResult Trainer::State::fit_elastic(ReplicaSync& sync, const FitInputs& inputs) {
  std::optional<TensorMap> initial;  // until the training has begun on all workers
  const auto begin = [&] {
    if (initial) {
      restore_module(model.module(), *initial);
      for (const Phase& phase : phases) phase.optimizer->state().clear();
      if (replicas.front()) replicas.front()->average().set_updates(0);
    } else {
      initial.emplace(capture_module(model.module()));
      for (auto& [name, tensor] : *initial) tensor = tensor.clone();
    }
    return begin_fit(sync, inputs);
  };
  ElasticFit fit(*elastic_sync, {.begin = begin,
                                 .join = [&](int shards) { return join_fit(sync, inputs, shards); },
                                 .on_begun = [&] { initial.reset(); }});
  try {
    elastic::ViewDriver(elastic_sync->membership(), {}).run(fit);
  } catch (...) {
    if (fit.loop()) fit.loop()->tell_failure();
    throw;
  }
  elastic_sync->make_members_final();
  position = fit.loop()->position();
  return fit.loop()->result();
}

// After the loss of all workers that had the state, in this launcher's time or an earlier one's, the
// job's own checkpoints are the newest there is.
ResumeSources Trainer::State::sources_of(const FitOptions& fit) const {
  const bool lost = strategy->resumes() || (elastic_sync && elastic_sync->began_before());
  return {.own = lost && !fit.fast_dev_run ? checkpoint_folder(fit.callbacks) : std::string(),
          .job = strategy->job(),
          .after = position.step,
          .asked = fit.resume};
}

std::filesystem::path Trainer::save(const std::filesystem::path& folder) {
  State& state = *state_;
  state.run("save()", [&](const parallel::Replica& replica) {
    ReplicaTrainer& part = state.ready_part_of(replica);
    const auto write = [&] {
      Checkpoint checkpoint = make_checkpoint(part, state.position, state.options, {});
      checkpoint.state.callbacks = state.callback_states;
      std::filesystem::create_directories(folder);
      return write_checkpoint(folder, checkpoint).string();
    };
    // All return when the files are there; parameter servers know no such moment.
    if (replica.servers == nullptr)
      part.sync().agreement->broadcast_text(write);
    else if (replica.is_first())
      write();
  });
  return checkpoint_path(folder, state.position.step);
}

void Trainer::load(const std::filesystem::path& path) {
  State& state = *state_;
  Position loaded;
  nlohmann::json callback_states;
  state.run("load()", [&](const parallel::Replica& replica) {
    expect(replica.elastic == nullptr, "load() does not go with an elastic job",
           "Give FitOptions::resume.");
    ReplicaSync& sync = state.sync_of(replica);
    const auto checkpoint = ResumePoint::find(
        *sync.agreement, replica.size, {.own = {}, .job = {}, .after = 0, .asked = path.string()},
        state.options);
    expect(checkpoint.found(), fmt::format("there is no checkpoint in {}", path.string()),
           "Give the folder of a ModelCheckpoint or of save(), or a checkpoint's JSON.");
    ReplicaTrainer& part = state.part_of(replica, checkpoint.shards(state.default_shards()));
    Position from = checkpoint.restore(part, state.position, {});
    part.broadcast_from_first();
    if (replica.local != 0) return;
    loaded = std::move(from);
    callback_states = checkpoint.callback_states();
  });
  state.position = std::move(loaded);
  state.callback_states = std::move(callback_states);
  state.loaded = true;
}

Logs Trainer::evaluate(SourcePtr data, std::int64_t batch_size) {
  State& state = *state_;
  expect_samples(data.get(), "the data set of evaluate()");
  Logs logs;
  state.run("evaluate()", [&](const parallel::Replica& replica) {
    ReplicaTrainer& part = state.ready_part_of(replica);
    part.sync().evaluation->refresh();
    Evaluated mine = part.evaluate(*data, batch_size > 0 ? batch_size : state.options.batch_size);
    if (replica.local != 0) return;
    logs = std::move(mine.logs);
    state.metric_tensors = std::move(mine.tensors);
  });
  return logs;
}

torch::Tensor Trainer::predict(SourcePtr data, std::int64_t batch_size) {
  return predict(std::move(data), Prediction(), batch_size);
}

torch::Tensor Trainer::predict(SourcePtr data, Prediction prediction, std::int64_t batch_size) {
  State& state = *state_;
  expect_samples(data.get(), "the data set of predict()");
  torch::Tensor outputs;
  state.run("predict()", [&](const parallel::Replica& replica) {
    ReplicaTrainer& part = state.ready_part_of(replica);
    part.sync().evaluation->refresh();
    auto mine =
        part.predict(*data, prediction, batch_size > 0 ? batch_size : state.options.batch_size);
    if (replica.local == 0) outputs = mine;
  });
  return outputs;
}

const std::map<std::string, torch::Tensor>& Trainer::metric_tensors() const {
  return state_->metric_tensors;
}

void Trainer::apply_average() {
  State& state = *state_;
  state.run("apply_average()", [&](const parallel::Replica& replica) {
    state.part_of(replica, state.default_shards()).average().apply();
  });
}

const Model& Trainer::model() const { return state_->model; }
std::string Trainer::weights() const { return fingerprint(state_->model.module()); }

}  // namespace cohort::train

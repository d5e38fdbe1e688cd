#include "cohort/train/trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cohort/base/error.h"
#include "cohort/parallel/tensors/named_call.h"
#include "cohort/train/callbacks/horovod.h"
#include "cohort/train/callbacks/model_checkpoint.h"
#include "cohort/train/callbacks/progress.h"
#include "cohort/train/checkpoint/module_state.h"
#include "cohort/train/checkpoint/optimizer_clone.h"
#include "cohort/train/checks.h"
#include "cohort/train/elastic_exchange.h"
#include "cohort/train/fit_loop.h"
#include "cohort/train/replica_trainer.h"
#include "cohort/train/resume.h"

namespace cohort::train {
namespace {

// As fit() calls them: what it adds itself, then by stage.
std::vector<std::shared_ptr<Callback>> in_order(const FitOptions& options) {
  auto callbacks = options.callbacks;
  std::set<std::filesystem::path> folders;
  for (const auto& callback : callbacks) {
    expect(callback != nullptr, "a callback of the list is null", "Take it out.");
    if (const auto* checkpoints = dynamic_cast<const ModelCheckpoint*>(callback.get()))
      expect(folders.insert(std::filesystem::absolute(checkpoints->folder()).lexically_normal())
                 .second,
             fmt::format("two ModelCheckpoints write to {}", checkpoints->folder().string()),
             "Give each a folder of its own.");
  }
  auto add_missing = [&]<typename C>(std::shared_ptr<C> callback) {
    if (std::none_of(callbacks.begin(), callbacks.end(),
                     [](const auto& other) { return dynamic_cast<C*>(other.get()) != nullptr; }))
      callbacks.push_back(std::move(callback));
  };
  add_missing(std::make_shared<BroadcastGlobalVariables>());
  if (options.progress) add_missing(std::make_shared<Progress>());
  std::stable_sort(callbacks.begin(), callbacks.end(),
                   [](const auto& a, const auto& b) { return a->stage() < b->stage(); });
  return callbacks;
}

// Where this training's own checkpoints lie; empty: it makes none.
std::string checkpoints_of(const FitOptions& options) {
  for (const auto& callback : options.callbacks)
    if (const auto* checkpoints = dynamic_cast<const ModelCheckpoint*>(callback.get()))
      return checkpoints->folder().string();
  return {};
}

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
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  MakeOptimizer make_optimizer;  // or nothing
  Loss loss;
  TrainerOptions options;
  int threads = 1;  // that LibTorch has outside of run()
  // By local index, made by the first run.
  std::vector<std::unique_ptr<Exchange>> exchanges;
  std::vector<std::unique_ptr<ReplicaTrainer>> replicas;
  Position position;
  std::mutex making;

  // On every local replica. The strategy computes with a fixed number of threads, for the same
  // bits; a training that gives them up takes what the program has.
  void run(const char* call, const std::function<void(const parallel::Replica&)>& body) {
    parallel::named_call(call, [&] {
      strategy->run([&](const parallel::Replica& replica) {
        if (!options.deterministic)
          at::set_num_threads(std::max(1, threads / strategy->local_replicas()));
        body(replica);
      });
    });
  }

  Exchange& exchange_of(const parallel::Replica& replica) {
    auto& exchange = exchanges[static_cast<std::size_t>(replica.local)];
    if (!exchange) exchange = make_exchange(replica, options.step_timeout);
    return *exchange;
  }

  // The replica's part, made at the first call. On the replica's thread; collective.
  ReplicaTrainer& part_of(const parallel::Replica& replica, int shards) {
    auto& part = replicas[static_cast<std::size_t>(replica.local)];
    if (!part) {
      auto [own_model, own_optimizer] = model_and_optimizer(replica);
      TrainerOptions own_options = options;
      own_options.virtual_shards = shards;
      part =
          std::make_unique<ReplicaTrainer>(replica, exchange_of(replica), own_model, own_optimizer,
                                           loss, own_options, strategy->local_replicas() > 1);
    }
    return *part;
  }

  // The first replica's are those that the user gave; the others' are copies. Copying reads what
  // the first one moves to its device: one at a time.
  std::pair<Model, std::shared_ptr<torch::optim::Optimizer>> model_and_optimizer(
      const parallel::Replica& replica) {
    std::lock_guard lock(making);
    if (replica.local == 0) {
      model.module().to(replica.device);
      return {model, optimizer};
    }
    Model copy = model.replicate(replica.device);
    return {copy, make_optimizer ? make_optimizer(copy.module().parameters())
                                 : clone_optimizer(*optimizer, model.module().parameters(),
                                                   copy.module().parameters())};
  }

  FitResult fit_once(const parallel::Replica& replica, Exchange& exchange, const DatasetPtr& data,
                     const FitOptions& fit, std::span<const std::shared_ptr<Callback>> callbacks,
                     FitControl& control, const std::function<void()>& on_begun = {});
  FitResult fit_elastic(ElasticExchange& exchange, const DatasetPtr& data, const FitOptions& fit,
                        std::span<const std::shared_ptr<Callback>> callbacks, FitControl& control);
  ResumeSources sources_of(Exchange& exchange, const FitOptions& fit) const;
  FitResult join_fit(ElasticExchange& exchange, const DatasetPtr& data, const FitOptions& fit,
                     std::span<const std::shared_ptr<Callback>> callbacks, FitControl& control);

  int default_shards() const {
    return options.virtual_shards > 0 ? options.virtual_shards : strategy->shards();
  }
};

Trainer::Trainer(std::shared_ptr<parallel::Strategy> strategy, Model model,
                 std::shared_ptr<torch::optim::Optimizer> optimizer, Loss loss,
                 TrainerOptions options)
    : state_(new State{.strategy = std::move(strategy),
                       .model = std::move(model),
                       .optimizer = std::move(optimizer),
                       .make_optimizer = {},
                       .loss = std::move(loss),
                       .options = std::move(options),
                       .threads = at::get_num_threads(),
                       .exchanges = {},
                       .replicas = {},
                       .position = {},
                       .making = {}}) {
  expect(state_->strategy != nullptr, "there is no strategy", "Give context.strategy().");
  expect(state_->optimizer != nullptr, "there is no optimizer",
         "Give one over the model's parameters.");
  check(state_->options, *state_->strategy);
  check_optimizer(*state_->optimizer, state_->model.module());
  state_->exchanges.resize(static_cast<std::size_t>(state_->strategy->local_replicas()));
  state_->replicas.resize(static_cast<std::size_t>(state_->strategy->local_replicas()));
  state_->position.sums = Sums(state_->options.metrics.size());
}

Trainer::Trainer(std::shared_ptr<parallel::Strategy> strategy, Model model,
                 MakeOptimizer make_optimizer, Loss loss, TrainerOptions options)
    : Trainer(std::move(strategy), model, make_optimizer(model.module().parameters()),
              std::move(loss), std::move(options)) {
  state_->make_optimizer = std::move(make_optimizer);
}

Trainer::~Trainer() = default;

FitResult Trainer::fit(std::shared_ptr<const Dataset> data, FitOptions options) {
  State& state = *state_;
  expect_samples(data.get(), "the data set of fit()");
  check(options, *data, state.options.batch_size);
  if (options.fast_dev_run) options = one_step_of(std::move(options), state.position.step);
  auto callbacks = in_order(options);
  const nlohmann::json agreed = agreed_values(state.options, options, *data);
  FitControl control;
  FitResult result;
  state.run("fit()", [&](const parallel::Replica& replica) {
    Exchange& exchange = state.exchange_of(replica);
    exchange.agree(agreed);
    auto own_callbacks = replica.local == 0 ? std::span<const std::shared_ptr<Callback>>(callbacks)
                                            : std::span<const std::shared_ptr<Callback>>();
    if (ElasticExchange* elastic = exchange.elastic())
      result = state.fit_elastic(*elastic, data, options, own_callbacks, control);
    else if (auto mine = state.fit_once(replica, exchange, data, options, own_callbacks, control);
             replica.local == 0)
      result = std::move(mine);
  });
  return result;
}

// From where the checkpoint or the last fit() ended to the end.
FitResult Trainer::State::fit_once(const parallel::Replica& replica, Exchange& exchange,
                                   const DatasetPtr& data, const FitOptions& fit,
                                   std::span<const std::shared_ptr<Callback>> callbacks,
                                   FitControl& control, const std::function<void()>& on_begun) {
  auto checkpoint = ResumePoint::find(exchange, replica.size, sources_of(exchange, fit), options);
  ReplicaTrainer& part = part_of(replica, checkpoint.shards(default_shards()));
  Position from = checkpoint.restore(part, position, callbacks);
  if (const std::string plan = exchange.dry_run(); !plan.empty()) {
    if (replica.is_first()) std::fputs(plan.c_str(), stdout);
    return {.history = {}, .step = from.step, .stopped = "a dry run", .weights = {}};
  }
  FitLoop loop(part, *strategy, data, fit, options, callbacks, control, from,
               exchange.begin(from.step));
  loop.on_begun(on_begun);
  if (const auto why = checkpoint.stop_reason()) loop.stop_as_before(*why);
  FitResult result = loop.run();
  if (replica.local == 0) position = loop.position();
  return result;
}

// Into a training that others have under way.
FitResult Trainer::State::join_fit(ElasticExchange& exchange, const DatasetPtr& data,
                                   const FitOptions& fit,
                                   std::span<const std::shared_ptr<Callback>> callbacks,
                                   FitControl& control) {
  const nlohmann::json image = exchange.receive();
  const parallel::Replica replica = exchange.replica();
  ReplicaTrainer& part = part_of(replica, image.at("state").at("virtual_shards").get<int>());
  part.set_replica(replica);
  FitLoop loop(part, *strategy, data, fit, options, callbacks, control, position, position.step);
  loop.join(image);
  FitResult result = loop.run();
  position = loop.position();
  return result;
}

// After a loss of everybody who had the state, in this launcher's time or an earlier one's, the
// job's own checkpoints are the newest there is.
ResumeSources Trainer::State::sources_of(Exchange& exchange, const FitOptions& fit) const {
  const ElasticExchange* elastic = exchange.elastic();
  const bool lost = strategy->resumes() || (elastic && elastic->began_before());
  return {.own = lost && !fit.fast_dev_run ? checkpoints_of(fit) : std::string(),
          .job = strategy->job(),
          .after = position.step,
          .asked = fit.resume};
}

// Until the training has begun on all workers, the loss of one means to begin again with the rest,
// from the values that the model had.
FitResult Trainer::State::fit_elastic(ElasticExchange& exchange, const DatasetPtr& data,
                                      const FitOptions& fit,
                                      std::span<const std::shared_ptr<Callback>> callbacks,
                                      FitControl& control) {
  std::optional<NamedTensors> initial;
  while (true) {
    try {
      if (exchange.is_behind()) return join_fit(exchange, data, fit, callbacks, control);
      if (initial) {
        restore_module(model.module(), *initial);
        optimizer->state().clear();
      } else {
        initial.emplace(capture_module(model.module()));
        for (auto& [name, tensor] : *initial) tensor = tensor.clone();
      }
      return fit_once(exchange.replica(), exchange, data, fit, callbacks, control,
                      [&] { initial.reset(); });
    } catch (const BeginAgain&) {
    } catch (const Error& error) {
      if (!exchange.survives(error)) throw;
      exchange.change(membership::kNoState, error.what());
    }
    if (auto& part = replicas.front()) part->set_replica(exchange.replica());
  }
}

Logs Trainer::evaluate(std::shared_ptr<const Dataset> data, std::int64_t batch_size) {
  State& state = *state_;
  expect_samples(data.get(), "the data set of evaluate()");
  Logs logs;
  state.run("evaluate()", [&](const parallel::Replica& replica) {
    ReplicaTrainer& part = state.part_of(replica, state.default_shards());
    part.exchange().refresh();
    Sums sums = part.evaluate(*data, batch_size > 0 ? batch_size : state.options.batch_size);
    if (replica.local == 0) logs = sums.logs(state.options.metrics);
  });
  return logs;
}

torch::Tensor Trainer::predict(std::shared_ptr<const Dataset> data, std::int64_t batch_size) {
  State& state = *state_;
  expect_samples(data.get(), "the data set of predict()");
  torch::Tensor outputs;
  state.run("predict()", [&](const parallel::Replica& replica) {
    ReplicaTrainer& part = state.part_of(replica, state.default_shards());
    part.exchange().refresh();
    auto mine = part.predict(*data, batch_size > 0 ? batch_size : state.options.batch_size);
    if (replica.local == 0) outputs = mine;
  });
  return outputs;
}

const Model& Trainer::model() const { return state_->model; }
std::string Trainer::weights() const { return fingerprint(state_->model.module()); }

}  // namespace cohort::train

#pragma once

#include <torch/torch.h>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cohort/collective/group.h"
#include "cohort/parallel/gradients/distributed_data_parallel.h"
#include "cohort/train/checkpoint/checkpoint_writer.h"

namespace cohort::train {

struct CheckpointsOptions {
  std::size_t keep_last = 3;  // 0: all
};

// Things that say where they stand: DataLoader, DistributedSampler, GradScaler.
template <typename T>
concept HasPosition = requires(T& thing, const nlohmann::json& value) {
  { std::as_const(thing).position() } -> std::convertible_to<nlohmann::json>;
  thing.set_position(value);
};
template <typename T>
concept HasState = requires(T& thing, const nlohmann::json& value) {
  { std::as_const(thing).state() } -> std::convertible_to<nlohmann::json>;
  thing.set_state(value);
};

// Checkpoints of a loop of one's own: what it registers is saved together, and put back on every
// rank. The files are those of a Trainer (docs/checkpoints.md).
//
//   cohort::Checkpoints checkpoints(context, "model/checkpoints");
//   checkpoints.register_module("model", net);          // a module or a DistributedDataParallel
//   checkpoints.register_optimizer("optimizer", sgd);
//   checkpoints.register_state("loader", loader);
//   std::int64_t step = checkpoints.restore();          // 0: there is none yet
//   for (...) { ...; ++step; if (step % 1000 == 0) checkpoints.save(step); }
//
// Rank 0 writes, in the background, and reads: the folder need not be on the other ranks' hosts. What
// is saved is rank 0's, so register what is the same on all.
//
// Confined to one thread. Ownership: what is registered, and `group`, must outlive it. The destructor
// waits for the checkpoint under way and logs what goes wrong; close() throws it.
// Failure: InvalidInput for a name that is empty, has a dot or is taken; from restore(), on every
// rank, for a checkpoint that does not fit, with nothing changed by the parts that do not. SystemError
// where the folder cannot be written, on rank 0.
class Checkpoints {
 public:
  Checkpoints(collective::Group& group, std::filesystem::path folder,
              CheckpointsOptions options = {});
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  void register_module(const std::string& name, torch::nn::Module& module);
  template <typename Net>
  void register_module(const std::string& name, parallel::DistributedDataParallel<Net>& net) {
    register_module(name, static_cast<torch::nn::Module&>(*net));
    register_json(
        name, [&net] { return nlohmann::json(net.steps()); },
        [&net](const nlohmann::json& steps) { net.set_steps(steps.get<std::int64_t>()); });
  }
  // After the modules whose parameters it has.
  void register_optimizer(const std::string& name, torch::optim::Optimizer& optimizer);
  template <typename T>
  requires HasPosition<T> || HasState<T>
  void register_state(const std::string& name, T& thing) {
    if constexpr (HasPosition<T>)
      register_json(
          name, [&thing] { return nlohmann::json(thing.position()); },
          [&thing](const nlohmann::json& value) { thing.set_position(value); });
    else
      register_json(
          name, [&thing] { return nlohmann::json(thing.state()); },
          [&thing](const nlohmann::json& value) { thing.set_state(value); });
  }
  // Numbers, texts, what JSON can hold.
  template <typename T>
  void register_value(const std::string& name, T& value) {
    register_json(
        name, [&value] { return nlohmann::json(value); },
        [&value](const nlohmann::json& saved) { value = saved.get<T>(); });
  }

  // After an update, the same `step` on every rank. Returns when a copy is taken; waits for the
  // checkpoint before. Its errors come out of the next call.
  void save(std::int64_t step);
  // Everything as in the newest whole checkpoint, on every rank; its step, or 0 where there is none.
  // Collective.
  std::int64_t restore();
  // Returns when all is on the disk, and gives the folder back.
  void close();

 private:
  using Get = std::function<nlohmann::json()>;
  using Set = std::function<void(const nlohmann::json&)>;
  void register_json(const std::string& name, Get get, Set set);
  ParameterNames names() const;
  Checkpoint capture(std::int64_t step) const;
  nlohmann::json load_here();

  struct Value {
    std::string name;
    Get get;
    Set set;
  };
  collective::Group& group_;
  CheckpointWriterOptions options_;
  std::vector<std::pair<std::string, torch::nn::Module*>> modules_;
  std::vector<std::pair<std::string, torch::optim::Optimizer*>> optimizers_;
  std::vector<Value> values_;
  std::unique_ptr<CheckpointWriter> writer_;  // rank 0's, from the first save() on
};

}  // namespace cohort::train

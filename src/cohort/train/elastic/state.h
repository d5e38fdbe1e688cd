#pragma once

#include <torch/torch.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "cohort/collective/group.h"
#include "cohort/membership/protocol/view.h"
#include "cohort/train/elastic/interruptions.h"
#include "cohort/train/elastic/part.h"
#include "cohort/train/elastic/snapshot.h"

namespace cohort::elastic {

// What a State asks about the workers that share it. run() gives it one.
class Members {
 public:
  virtual ~Members() = default;
  virtual collective::Group& group() = 0;
  // As membership::Agent's; nothing where members never change.
  virtual std::optional<std::uint64_t> planned_change() = 0;
  virtual void expect_commit(Deadline deadline) = 0;
  virtual void committed(std::int64_t commits) = 0;
};

// What a training loop of one's own needs to go on when workers come and go: Horovod's elastic
// state. Things are registered by name once, before run(); the loop says when they fit together:
//
//   elastic::State state;
//   state.register_module("model", *net);
//   state.register_optimizer("sgd", sgd);
//   state.register_value("epoch", epoch);
//   elastic::run(context, state, [&](elastic::State& state) {
//     for (; epoch < epochs; ++epoch) { ...; state.commit(); }
//   });
//
// The state counts its commits. The worker with the most of them is the one that others copy from, so
// every worker must commit at the same points of the loop, and what it commits must be the same on
// all: what comes out of collectives, and what follows from it.
//
// Confined to the thread that trains. Ownership: what is registered must outlive it. Costs host
// memory for one copy of everything.
// Failure: commit, check_host_updates and sync are collective over the workers of the current view
// and throw what their group throws, and membership::ViewEnded; run() catches that.
class State {
 public:
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Horovod's register(). InvalidInput for a name that is empty, has a dot, or is there already.
  void register_module(const std::string& name, torch::nn::Module& module);
  void register_optimizer(const std::string& name, torch::optim::Optimizer& optimizer);
  void register_tensor(const std::string& name, const torch::Tensor& tensor);
  void register_sampler(const std::string& name, train::ElasticSampler& sampler);
  // Integers, doubles, bool, std::string, nlohmann::json, and whatever else converts to JSON and
  // back without loss.
  template <typename T>
  void register_value(const std::string& name, T& value) {
    add(make_value_part(
        name, type_name<T>(), [&value] { return nlohmann::json(value); },
        [&value](const nlohmann::json& saved) { value = saved.get<T>(); }));
  }
  // Called after each change of members, before the values are copied: to fit a learning rate to
  // the number of workers, for example.
  void register_reset_callbacks(std::vector<std::function<void()>> callbacks);

  // Saves a copy of everything in host memory. Then checks whether members come or go: if so, all
  // workers throw MembersChange here.
  void commit(collective::CallOptions options = {});
  // The second half of commit() alone: cheaper, for points between commits. Where a change is due
  // it saves, too: so call it only where everything fits together.
  void check_host_updates(collective::CallOptions options = {});
  // Back to the last commit() or sync(). Does nothing before the first.
  void restore();
  // Everything becomes what it is on the worker with the most commits (of several: the first), and
  // is saved. Proved by a checksum; where all have the same already, nothing is sent.
  void sync(collective::CallOptions options = {});

  // membership::kNoState before the first commit() or sync().
  std::int64_t commits() const { return commits_; }

  // What follows is for run().
  void attach(Members* members) { members_ = members; }  // null: this process is alone
  nlohmann::json agreement() const;  // names, types and shapes: the same on all workers
  void save();                       // counts as a commit
  // Others have gone on without this worker: what it has counts for nothing at the next sync().
  void forget() { commits_ = membership::kNoState; }
  void members_changed();  // calls the reset callbacks

 private:
  template <typename T>
  static constexpr const char* type_name() {
    if constexpr (std::same_as<T, bool>) return "bool";
    if constexpr (std::integral<T>) return "integer";
    if constexpr (std::floating_point<T>) return "number";
    if constexpr (std::same_as<T, std::string>) return "text";
    return "value";
  }
  void add(std::unique_ptr<Part> part);
  TrainingSnapshot capture() const;
  bool change_is_due(const collective::CallOptions& options) const;

  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<std::function<void()>> reset_callbacks_;
  Members* members_ = nullptr;
  std::int64_t commits_ = membership::kNoState;
  TrainingSnapshot saved_;
  bool has_saved_ = false;
};

}  // namespace cohort::elastic

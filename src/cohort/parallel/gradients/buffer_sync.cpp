#include "cohort/parallel/gradients/buffer_sync.h"

#include "cohort/collective/shard_reducer.h"
#include "cohort/parallel/gradients/buffer_partials.h"

namespace cohort::parallel {

struct BufferSync::State {
  State(collective::Group& g, const NamedTensors& buffers, int shards,
        const std::vector<collective::ShardRange>& runs)
      : group(g),
        reducer(g, shards, runs),
        first_owner(collective::first_owner(runs)),
        alone(g.size() == 1 && shards == 1),
        own(reducer.plan(), buffers, !alone) {}

  collective::Group& group;
  collective::ShardReducer reducer;
  int first_owner;  // the rank of shard 0
  bool alone;
  BufferPartials own;
  torch::Tensor sum;  // of the floating-point buffers, from reduce() to apply()

  bool has_nothing_to_do() const { return own.empty() || alone; }
};

BufferSync::BufferSync(collective::Group& group, NamedTensors buffers, int shards,
                       std::vector<collective::ShardRange> runs)
    : state_(std::make_unique<State>(group, buffers, shards == 0 ? group.size() : shards, runs)) {}

BufferSync::~BufferSync() = default;

void BufferSync::begin_shard() {
  if (!state_->has_nothing_to_do()) state_->own.begin_shard();
}

void BufferSync::end_shard(double weight) {
  if (!state_->has_nothing_to_do()) state_->own.end_shard(weight);
}

void BufferSync::finish(Deadline deadline) {
  reduce(deadline);
  apply();
}

void BufferSync::reduce(Deadline deadline) {
  State& state = *state_;
  if (state.has_nothing_to_do()) return;
  state.own.end_step();
  if (state.own.floating_elements() > 0) {
    std::vector<std::byte*> partials;
    for (const torch::Tensor& partial : state.own.partials())
      partials.push_back(static_cast<std::byte*>(partial.data_ptr()));
    state.sum = partials.empty() ? torch::empty({state.own.floating_elements()}, torch::kDouble)
                                 : state.own.partials().back();
    state.reducer.all_reduce(partials, static_cast<std::byte*>(state.sum.data_ptr()),
                             static_cast<std::size_t>(state.sum.numel()), collective::DataType::f64,
                             1, {deadline});
  }
  if (const torch::Tensor& largest = state.own.largest(); state.own.integer_elements() > 0)
    state.group.all_reduce(largest.data_ptr(), largest.data_ptr(),
                           static_cast<std::size_t>(largest.numel()), collective::DataType::i64,
                           {.op = collective::ReduceOp::maximum, .deadline = deadline});
  if (const torch::Tensor& first = state.own.first(); state.own.boolean_elements() > 0)
    state.group.broadcast(first.data_ptr(), static_cast<std::size_t>(first.numel()),
                          collective::DataType::boolean, state.first_owner, {deadline});
}

void BufferSync::apply() {
  State& state = *state_;
  if (state.has_nothing_to_do()) return;
  const torch::NoGradGuard no_grad;
  if (state.own.floating_elements() > 0) state.own.set_floating(state.sum);
  if (state.own.integer_elements() > 0) state.own.set_integer(state.own.largest());
  if (state.own.boolean_elements() > 0) state.own.set_boolean(state.own.first());
}

}  // namespace cohort::parallel

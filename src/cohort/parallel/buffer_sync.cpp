#include "cohort/parallel/buffer_sync.h"

#include "cohort/collective/shard_reducer.h"
#include "cohort/parallel/buffer_partials.h"

namespace cohort::parallel {

struct BufferSync::State {
  State(collective::Group& g, const NamedTensors& buffers, int shards)
      : group(g),
        reducer(g, shards),
        alone(g.size() == 1 && shards == 1),
        own(reducer.plan(), buffers, !alone) {}

  collective::Group& group;
  collective::ShardReducer reducer;
  bool alone;
  BufferPartials own;

  bool has_nothing_to_do() const { return own.empty() || alone; }
};

BufferSync::BufferSync(collective::Group& group, NamedTensors buffers, int shards)
    : state_(std::make_unique<State>(group, buffers, shards == 0 ? group.size() : shards)) {}

BufferSync::~BufferSync() = default;

void BufferSync::begin_shard() {
  if (!state_->has_nothing_to_do()) state_->own.begin_shard();
}

void BufferSync::end_shard(double weight) {
  if (!state_->has_nothing_to_do()) state_->own.end_shard(weight);
}

void BufferSync::finish(Deadline deadline) {
  State& state = *state_;
  if (state.has_nothing_to_do()) return;
  state.own.end_step();
  const torch::NoGradGuard no_grad;
  if (state.own.floating_elements() > 0) {
    std::vector<std::byte*> partials;
    for (const torch::Tensor& partial : state.own.partials())
      partials.push_back(static_cast<std::byte*>(partial.data_ptr()));
    const torch::Tensor sum = state.own.partials().back();
    state.reducer.all_reduce(partials, partials.back(), static_cast<std::size_t>(sum.numel()),
                             collective::DataType::f64, 1, {deadline});
    state.own.set_floating(sum);
  }
  if (const torch::Tensor largest = state.own.largest(); state.own.integer_elements() > 0) {
    state.group.all_reduce(largest.data_ptr(), largest.data_ptr(),
                           static_cast<std::size_t>(largest.numel()), collective::DataType::i64,
                           {.op = collective::ReduceOp::maximum, .deadline = deadline});
    state.own.set_integer(largest);
  }
  if (const torch::Tensor zero = state.own.first(); state.own.boolean_elements() > 0) {
    state.group.broadcast(zero.data_ptr(), static_cast<std::size_t>(zero.numel()),
                          collective::DataType::boolean, 0, {deadline});
    state.own.set_boolean(zero);
  }
}

}  // namespace cohort::parallel

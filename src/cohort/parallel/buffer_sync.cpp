#include "cohort/parallel/buffer_sync.h"

#include <algorithm>
#include <unordered_set>

#include "cohort/base/error.h"
#include "cohort/collective/shard_reducer.h"

namespace cohort::parallel {

namespace {

using collective::DataType;

struct Tracked {
  torch::Tensor buffer;
  torch::Tensor before;  // its value before the step
};

std::int64_t elements_of(const std::vector<Tracked>& tracked) {
  std::int64_t elements = 0;
  for (const Tracked& one : tracked) elements += one.buffer.numel();
  return elements;
}

// All buffers of one kind, one after the other, as `type`.
torch::Tensor pack(const std::vector<Tracked>& tracked, torch::ScalarType type) {
  torch::Tensor packed = torch::empty({elements_of(tracked)}, type);
  std::int64_t at = 0;
  for (const Tracked& one : tracked) {
    packed.narrow(0, at, one.buffer.numel()).copy_(one.buffer.reshape(-1));
    at += one.buffer.numel();
  }
  return packed;
}

void unpack(const torch::Tensor& packed, std::vector<Tracked>& tracked) {
  std::int64_t at = 0;
  for (Tracked& one : tracked) {
    one.buffer.copy_(packed.narrow(0, at, one.buffer.numel()).view(one.buffer.sizes()));
    at += one.buffer.numel();
  }
}

std::byte* data_of(const torch::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.data_ptr());
}

}  // namespace

struct BufferSync::State {
  State(collective::Group& g, int shards)
      : group(g),
        own(collective::shards_of(g.rank(), g.size(), shards)),
        reducer(g, shards),
        alone(g.size() == 1 && shards == 1),
        partials(reducer.plan().nodes().size()) {}

  collective::Group& group;
  collective::ShardRange own;
  collective::ShardReducer reducer;
  bool alone;
  std::vector<Tracked> floating, integer, boolean;
  int shards_done = 0;
  bool in_shard = false;
  // f64 whatever the buffers' type, so that a value on which all shards agree comes out as it was.
  std::vector<torch::Tensor> stack, partials;
  torch::Tensor largest, shard_zero;

  bool empty() const { return floating.empty() && integer.empty() && boolean.empty(); }
  template <typename Function>
  void for_each(Function function) {
    for (auto* kind : {&floating, &integer, &boolean})
      for (Tracked& one : *kind) function(one);
  }
  void add_floating(torch::Tensor values);
};

void BufferSync::State::add_floating(torch::Tensor values) {
  const auto& step = reducer.plan().steps()[static_cast<std::size_t>(shards_done)];
  const std::size_t below = stack.size() - (step.inputs.size() - 1);
  if (below < stack.size()) {
    const collective::TreeReducer tree(
        {DataType::f64, collective::ReduceOp::sum, reducer.plan().shards()}, step.node, step.inputs,
        true);
    std::vector<const std::byte*> inputs;
    for (std::size_t i = below; i < stack.size(); ++i) inputs.push_back(data_of(stack[i]));
    inputs.push_back(data_of(values));
    std::byte* to = data_of(values);
    tree.run(inputs, {&to, 1}, static_cast<std::size_t>(values.numel()));
    stack.resize(below);
  }
  (step.final < 0 ? stack.emplace_back() : partials[static_cast<std::size_t>(step.final)]) =
      std::move(values);
}

BufferSync::BufferSync(collective::Group& group, NamedTensors buffers, int shards)
    : state_(std::make_unique<State>(group, shards == 0 ? group.size() : shards)) {
  const torch::NoGradGuard no_grad;
  std::unordered_set<const void*> seen;
  for (auto& [name, buffer] : buffers) {
    if (!buffer.defined() || !seen.insert(buffer.unsafeGetTensorImpl()).second) continue;
    if (buffer.is_complex() || buffer.is_quantized() || buffer.layout() != torch::kStrided)
      throw InvalidInput(fmt::format("the buffer {} of type {} cannot be kept the same on all "
                                     "replicas",
                                     name, torch::toString(buffer.scalar_type())),
                         {.advice = "Use a dense floating-point, integer or boolean buffer."});
    auto& kind = buffer.is_floating_point()             ? state_->floating
                 : buffer.scalar_type() == torch::kBool ? state_->boolean
                                                        : state_->integer;
    kind.push_back({buffer, state_->alone ? torch::Tensor() : buffer.clone()});
  }
}

BufferSync::~BufferSync() = default;

void BufferSync::begin_shard() {
  State& state = *state_;
  if (state.empty() || state.alone) return;
  if (state.in_shard || state.shards_done == state.own.count)
    throw InvalidInput("begin_shard() out of turn: end the shard before, or finish the step");
  const torch::NoGradGuard no_grad;
  state.for_each([&](Tracked& one) {
    if (state.shards_done == 0)
      one.before.copy_(one.buffer);
    else
      one.buffer.copy_(one.before);
  });
  state.in_shard = true;
}

void BufferSync::end_shard(double weight) {
  State& state = *state_;
  if (state.empty() || state.alone) return;
  if (!state.in_shard) throw InvalidInput("end_shard() without begin_shard()");
  const torch::NoGradGuard no_grad;
  if (!state.floating.empty()) {
    // No part at all for a shard of no weight: zero times an infinite buffer would not be zero.
    torch::Tensor values = weight == 0 ? torch::zeros({elements_of(state.floating)}, torch::kDouble)
                                       : pack(state.floating, torch::kDouble).mul_(weight);
    state.add_floating(std::move(values));
  }
  if (!state.integer.empty()) {
    torch::Tensor values = pack(state.integer, torch::kLong);
    state.largest = state.shards_done == 0 ? values : torch::maximum(state.largest, values);
  }
  if (!state.boolean.empty() && state.shards_done == 0)
    state.shard_zero = pack(state.boolean, torch::kBool);
  state.in_shard = false;
  ++state.shards_done;
}

void BufferSync::finish(Deadline deadline) {
  State& state = *state_;
  if (state.empty() || state.alone) return;
  if (state.in_shard || state.shards_done != state.own.count)
    throw InvalidInput(
        fmt::format("finish() after {} of {} own shards", state.shards_done, state.own.count));
  const torch::NoGradGuard no_grad;
  state.shards_done = 0;
  if (!state.floating.empty()) {
    std::vector<std::byte*> partials;
    for (const torch::Tensor& partial : state.partials) partials.push_back(data_of(partial));
    torch::Tensor sum = state.partials.back();
    state.reducer.all_reduce(partials, data_of(sum), static_cast<std::size_t>(sum.numel()),
                             DataType::f64, 1, {deadline});
    unpack(sum, state.floating);
  }
  if (!state.integer.empty()) {
    state.group.all_reduce(state.largest.data_ptr(), state.largest.data_ptr(),
                           static_cast<std::size_t>(state.largest.numel()), DataType::i64,
                           {.op = collective::ReduceOp::maximum, .deadline = deadline});
    unpack(state.largest, state.integer);
  }
  if (!state.boolean.empty()) {
    state.group.broadcast(state.shard_zero.data_ptr(),
                          static_cast<std::size_t>(state.shard_zero.numel()), DataType::boolean, 0,
                          {deadline});
    unpack(state.shard_zero, state.boolean);
  }
}

}  // namespace cohort::parallel

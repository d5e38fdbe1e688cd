#include "cohort/parallel/gradients/buffer_sync.h"

#include <optional>

#include "cohort/collective/device/device_group.h"
#include "cohort/collective/shard_reducer.h"
#include "cohort/parallel/cuda/device_streams.h"
#include "cohort/parallel/devices/device_shard_sum.h"
#include "cohort/parallel/gradients/buffer_partials.h"

namespace cohort::parallel {

namespace {

// Where all buffers are, if the group can work there; else the host.
torch::Device common_device(collective::Group& group, const NamedTensors& buffers) {
  std::optional<torch::Device> common;
  if (group.size() == 1 || group.device() != nullptr)
    for (const auto& [name, buffer] : buffers) {
      if (!buffer.defined()) continue;
      if (!buffer.is_cuda() || (common && *common != buffer.device())) return torch::kCPU;
      common = buffer.device();
    }
  return common.value_or(torch::kCPU);
}

std::size_t elements_in(const torch::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel());
}

}  // namespace

struct BufferSync::State {
  State(collective::Group& g, const NamedTensors& buffers, int shards,
        const std::vector<collective::ShardRange>& runs)
      : group(g),
        device(common_device(g, buffers)),
        reducer(g, shards, runs),
        first_owner(collective::first_owner(runs)),
        alone(g.size() == 1 && shards == 1),
        own(reducer.plan(), buffers, !alone, device) {
    if (!device.is_cpu())
      device_sum.emplace(g.device(), g.rank(), g.size(), shards, runs, /*any_order=*/false);
  }

  collective::Group& group;
  torch::Device device;
  collective::ShardReducer reducer;
  std::optional<DeviceShardSum> device_sum;  // where the values are on a GPU
  int first_owner;                           // the rank of shard 0
  bool alone;
  BufferPartials own;
  torch::Tensor sum;  // of the floating-point buffers, from reduce() to apply()

  bool has_nothing_to_do() const { return own.empty() || alone; }
  void reduce_on_host(Deadline deadline);
  void reduce_on_device();
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

void BufferSync::discard_step() { state_->own.discard_step(); }
bool BufferSync::can_be_captured() const {
  return state_->has_nothing_to_do() || state_->device_sum.has_value();
}

void BufferSync::finish(Deadline deadline) {
  reduce(deadline);
  apply();
}

void BufferSync::reduce(Deadline deadline) {
  State& state = *state_;
  if (state.has_nothing_to_do()) return;
  state.own.end_step();
  if (const std::int64_t elements = state.own.floating_elements(); elements > 0)
    state.sum =
        state.own.partials().empty()
            ? torch::empty({elements},
                           torch::TensorOptions().dtype(torch::kDouble).device(state.device))
            : state.own.partials().back();
  if (state.device_sum)
    state.reduce_on_device();
  else
    state.reduce_on_host(deadline);
}

void BufferSync::State::reduce_on_host(Deadline deadline) {
  if (own.floating_elements() > 0) {
    std::vector<std::byte*> partials;
    for (const torch::Tensor& partial : own.partials())
      partials.push_back(static_cast<std::byte*>(partial.data_ptr()));
    reducer.all_reduce(partials, static_cast<std::byte*>(sum.data_ptr()), elements_in(sum),
                       collective::DataType::f64, 1, {deadline});
  }
  if (const torch::Tensor& largest = own.largest(); own.integer_elements() > 0)
    group.all_reduce(largest.data_ptr(), largest.data_ptr(), elements_in(largest),
                     collective::DataType::i64,
                     {.op = collective::ReduceOp::maximum, .deadline = deadline});
  if (const torch::Tensor& first = own.first(); own.boolean_elements() > 0)
    group.broadcast(first.data_ptr(), elements_in(first), collective::DataType::boolean,
                    first_owner, {deadline});
}

void BufferSync::State::reduce_on_device() {
  if (own.floating_elements() > 0) device_sum->all_reduce(own.partials(), sum, 1);
  if (group.size() == 1) return;
  collective::DeviceGroup& others = *group.device();
  const collective::DeviceStream stream = current_stream(device);
  if (const torch::Tensor& largest = own.largest(); own.integer_elements() > 0)
    others.all_reduce(largest.data_ptr(), largest.data_ptr(), elements_in(largest),
                      collective::DataType::i64, collective::ReduceOp::maximum, stream);
  if (const torch::Tensor& first = own.first(); own.boolean_elements() > 0)
    others.broadcast(first.data_ptr(), elements_in(first), collective::DataType::boolean,
                     first_owner, stream);
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

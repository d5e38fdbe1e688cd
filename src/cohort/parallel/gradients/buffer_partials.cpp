#include "cohort/parallel/gradients/buffer_partials.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "cohort/base/error.h"

namespace cohort::parallel {

BufferPartials::BufferPartials(const collective::ShardPlan& plan, const NamedTensors& buffers,
                               bool keeps_before, torch::Device device)
    : plan_(plan), device_(device), partials_(plan.nodes().size()) {
  const torch::NoGradGuard no_grad;
  std::unordered_set<const void*> seen;
  for (const auto& [name, buffer] : buffers) {
    if (!buffer.defined() || !seen.insert(buffer.unsafeGetTensorImpl()).second) continue;
    if (buffer.is_complex() || buffer.is_quantized() || buffer.layout() != torch::kStrided)
      throw InvalidInput(fmt::format("the buffer {} of type {} cannot be kept the same on all "
                                     "replicas",
                                     name, torch::toString(buffer.scalar_type())),
                         {.advice = "Use a dense floating-point, integer or boolean buffer."});
    auto& kind = buffer.is_floating_point()             ? floating_
                 : buffer.scalar_type() == torch::kBool ? boolean_
                                                        : integer_;
    kind.push_back({buffer, keeps_before ? buffer.clone() : torch::Tensor()});
  }
}

std::int64_t BufferPartials::elements_of(const std::vector<Tracked>& tracked) {
  std::int64_t elements = 0;
  for (const Tracked& one : tracked) elements += one.buffer.numel();
  return elements;
}

// All buffers of one kind, one after the other, as `type`.
torch::Tensor BufferPartials::pack(const std::vector<Tracked>& tracked,
                                   torch::ScalarType type) const {
  const auto options = torch::TensorOptions().dtype(type).device(device_);
  const auto is_alike = [&](const Tracked& one) {
    return one.buffer.device() == device_ &&
           one.buffer.scalar_type() == tracked.front().buffer.scalar_type();
  };
  if (!tracked.empty() && std::all_of(tracked.begin(), tracked.end(), is_alike)) {
    std::vector<torch::Tensor> all;
    for (const Tracked& one : tracked) all.push_back(one.buffer.reshape(-1));
    return torch::cat(all).to(type);
  }
  torch::Tensor packed = torch::empty({elements_of(tracked)}, options);
  std::int64_t at = 0;
  for (const Tracked& one : tracked) {
    packed.narrow(0, at, one.buffer.numel()).copy_(one.buffer.reshape(-1));
    at += one.buffer.numel();
  }
  return packed;
}

void BufferPartials::unpack(const torch::Tensor& packed, std::vector<Tracked>& tracked) {
  std::int64_t at = 0;
  for (Tracked& one : tracked) {
    one.buffer.copy_(packed.narrow(0, at, one.buffer.numel()).view(one.buffer.sizes()));
    at += one.buffer.numel();
  }
}

void BufferPartials::add_floating(torch::Tensor values) {
  const auto& step = plan_.steps()[shards_done_];
  const std::size_t below = stack_.size() - (step.inputs.size() - 1);
  if (below < stack_.size()) {
    std::vector<TreePart> parts(stack_.begin() + static_cast<std::ptrdiff_t>(below), stack_.end());
    parts.push_back({step.inputs.back().node, values});
    sum_in_tree(values, step.node, parts);
    stack_.resize(below);
  }
  if (step.final < 0)
    stack_.push_back({step.node, std::move(values)});
  else
    partials_[static_cast<std::size_t>(step.final)] = std::move(values);
}

void BufferPartials::begin_shard() {
  if (in_shard_ || shards_done_ == plan_.steps().size())
    throw InvalidInput("begin_shard() out of turn: end the shard before, or finish the step");
  const torch::NoGradGuard no_grad;
  for (auto* kind : {&floating_, &integer_, &boolean_})
    for (Tracked& one : *kind) {
      if (shards_done_ == 0)
        one.before.copy_(one.buffer);
      else
        one.buffer.copy_(one.before);
    }
  in_shard_ = true;
}

void BufferPartials::end_shard(double weight) {
  if (!in_shard_) throw InvalidInput("end_shard() without begin_shard()");
  const torch::NoGradGuard no_grad;
  if (!floating_.empty()) {
    // No part at all for a shard of no weight: zero times an infinite buffer would not be zero.
    torch::Tensor values =
        weight == 0 ? torch::zeros({floating_elements()},
                                   torch::TensorOptions().dtype(torch::kDouble).device(device_))
                    : floating_values().mul_(weight);
    add_floating(std::move(values));
  }
  if (!integer_.empty()) {
    torch::Tensor values = integer_values();
    largest_ = shards_done_ == 0 ? values : torch::maximum(largest_, values);
  }
  if (!boolean_.empty() && shards_done_ == 0) first_ = boolean_values();
  in_shard_ = false;
  ++shards_done_;
}

void BufferPartials::discard_step() {
  in_shard_ = false;
  shards_done_ = 0;
  stack_.clear();
}

void BufferPartials::end_step() {
  if (in_shard_ || shards_done_ != plan_.steps().size())
    throw InvalidInput(
        fmt::format("finish() after {} of {} own shards", shards_done_, plan_.steps().size()));
  shards_done_ = 0;
  if (!plan_.steps().empty()) return;
  largest_ = torch::full({integer_elements()}, std::numeric_limits<std::int64_t>::min(),
                         torch::TensorOptions().dtype(torch::kLong).device(device_));
  first_ = torch::zeros({boolean_elements()},
                        torch::TensorOptions().dtype(torch::kBool).device(device_));
}

}  // namespace cohort::parallel

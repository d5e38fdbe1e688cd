#include "cohort/train/sync/sharded_update.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/parallel/tensors/element_types.h"
#include "cohort/parallel/tensors/text_exchange.h"
#include "cohort/train/checkpoint/optimizer_clone.h"
#include "cohort/train/checkpoint/optimizer_state.h"

namespace cohort::train {
namespace {

using nlohmann::json;
using parallel::Slice;

constexpr std::int64_t kFieldsOfPart = 16;  // at most, of one parameter's state

// Elements of `tensor` in the order in which they lie in its memory, which they share.
torch::Tensor flat_slice(const torch::Tensor& tensor, const Slice& slice) {
  return tensor.detach().as_strided(
      {static_cast<std::int64_t>(slice.count)}, {1},
      tensor.storage_offset() + static_cast<std::int64_t>(slice.from));
}

// `values`, with its elements in memory as those of `parameter` are.
torch::Tensor laid_out_like(const torch::Tensor& parameter, const torch::Tensor& values) {
  if (values.strides() == parameter.strides()) return values;
  return torch::empty_like(parameter.detach(), parameter.options().dtype(values.dtype()))
      .copy_(values);
}

std::span<std::byte> bytes_of_memory(const torch::Tensor& contiguous) {
  return {static_cast<std::byte*>(contiguous.data_ptr()), contiguous.nbytes()};
}

void check_divisible(const std::string& name, const torch::Tensor& parameter) {
  if (!parameter.device().is_cpu())
    throw InvalidInput(fmt::format("parameter {} is on {}: workers divide what is in the memory of "
                                   "the CPU alone",
                                   name, parameter.device().str()),
                       {.advice = "Set shard to none, or train on the CPU."});
  if (!parameter.unsafeGetTensorImpl()->is_non_overlapping_and_dense())
    throw InvalidInput(fmt::format("parameter {} does not fill its memory without gaps", name),
                       {.advice = "Make it contiguous, or set shard to none."});
}

}  // namespace

ShardedUpdate::ShardedUpdate(collective::Group& group, const parallel::NamedTensors& parameters,
                             torch::optim::Optimizer& optimizer, std::chrono::milliseconds timeout)
    : group_(group), optimizer_(optimizer), timeout_(timeout) {
  const torch::NoGradGuard no_grad;
  add_parts(parameters);
  std::vector<parallel::ParameterSize> sizes;
  for (const Part& part : parts_)
    sizes.push_back({static_cast<std::size_t>(part.parameter.numel()),
                     static_cast<std::size_t>(part.parameter.element_size())});
  partition_.emplace(sizes, group.size());
  std::vector<torch::Tensor> from, to;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Slice own = partition_->slice(i, group.rank());
    if (own.count > 0)
      parts_[i].slice = flat_slice(parts_[i].parameter, own).set_requires_grad(true);
    from.push_back(parts_[i].parameter);
    to.push_back(parts_[i].slice);
  }
  own_ = clone_optimizer(optimizer, from, to);
  reads_.emplace(group,
                 [this](std::int64_t kind, std::int64_t item) { return answer(kind, item); });
}

ShardedUpdate::~ShardedUpdate() = default;

void ShardedUpdate::add_parts(const parallel::NamedTensors& parameters) {
  std::unordered_map<const void*, std::string> names;
  for (const auto& [name, parameter] : parameters)
    names.emplace(parameter.unsafeGetTensorImpl(), name);
  for (const auto& group : optimizer_.param_groups())
    for (const torch::Tensor& parameter : group.params()) {
      parts_.push_back({names[parameter.unsafeGetTensorImpl()], parameter, {}});
      check_divisible(parts_.back().name, parameter);
    }
}

void ShardedUpdate::take_options() {
  for (std::size_t i = 0; i < optimizer_.param_groups().size(); ++i)
    own_->param_groups()[i].set_options(optimizer_.param_groups()[i].options().clone());
}

void ShardedUpdate::step() {
  const torch::NoGradGuard no_grad;
  take_options();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    if (!part.slice.defined() || !part.parameter.grad().defined()) continue;
    part.slice.mutable_grad() = flat_slice(laid_out_like(part.parameter, part.parameter.grad()),
                                           partition_->slice(i, group_.rank()));
  }
  own_->step();
  for (Part& part : parts_)
    if (part.slice.defined()) part.slice.mutable_grad().reset();
  gather_parameters();
  reads_->publish();
}

void ShardedUpdate::gather_parameters() {
  std::set<torch::ScalarType> whole;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const torch::Tensor& parameter = parts_[i].parameter;
    if (!parameter.requires_grad()) continue;
    if (partition_->is_cut(i))
      group_.all_gather_v(nullptr, parameter.data_ptr(), partition_->counts(i),
                          parallel::data_type_of(parameter.scalar_type()), {deadline()});
    else
      whole.insert(parameter.scalar_type());
  }
  for (const torch::ScalarType dtype : whole) gather_whole(dtype);
}

// Small parameters travel together: those of rank 0, then those of rank 1, ...
void ShardedUpdate::gather_whole(torch::ScalarType dtype) {
  std::vector<std::size_t> counts, order;
  for (int rank = 0; rank < group_.size(); ++rank) {
    counts.push_back(0);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const torch::Tensor& parameter = parts_[i].parameter;
      if (partition_->is_cut(i) || partition_->owner(i) != rank || !parameter.requires_grad() ||
          parameter.scalar_type() != dtype)
        continue;
      counts.back() += partition_->elements(i);
      order.push_back(i);
    }
  }
  std::int64_t total = 0;
  for (const std::size_t count : counts) total += static_cast<std::int64_t>(count);
  torch::Tensor message = torch::empty({total}, torch::TensorOptions().dtype(dtype));
  const auto each = [&](auto&& copy) {
    std::int64_t at = 0;
    for (const std::size_t i : order) {
      const torch::Tensor values = flat_slice(parts_[i].parameter, {0, partition_->elements(i)});
      copy(partition_->owner(i) == group_.rank(), values, message.narrow(0, at, values.numel()));
      at += values.numel();
    }
  };
  each([](bool own, const torch::Tensor& values, torch::Tensor place) {
    if (own) place.copy_(values);
  });
  group_.all_gather_v(nullptr, message.data_ptr(), counts, parallel::data_type_of(dtype),
                      {deadline()});
  each([](bool own, torch::Tensor values, const torch::Tensor& place) {
    if (!own) values.copy_(place);
  });
}

int ShardedUpdate::first_owner(std::size_t part) const {
  return partition_->is_cut(part) ? 0 : partition_->owner(part);
}

json ShardedUpdate::describe(std::size_t part) const {
  const torch::Tensor& slice = parts_[part].slice;
  const auto state = slice.defined() ? read_parameter_state(*own_, slice) : std::nullopt;
  if (!state) return nullptr;
  json tensors = json::object();
  for (const auto& [name, tensor] : state->tensors)
    tensors[name] = static_cast<int>(tensor.scalar_type());
  return {{"numbers", state->numbers}, {"tensors", tensors}};
}

parallel::PeerReads::Item ShardedUpdate::answer(std::int64_t kind, std::int64_t item) const {
  if (kind == kStateText) {
    const auto text =
        std::make_shared<std::string>(describe(static_cast<std::size_t>(item)).dump());
    return {std::as_bytes(std::span(*text)), text};
  }
  const Part& part = parts_[static_cast<std::size_t>(item / kFieldsOfPart)];
  const auto state = read_parameter_state(*own_, part.slice);
  COHORT_CHECK(state && item % kFieldsOfPart < static_cast<std::int64_t>(state->tensors.size()),
               "{} has no state {}", part.name, item % kFieldsOfPart);
  const auto tensor = std::make_shared<torch::Tensor>(
      std::next(state->tensors.begin(), item % kFieldsOfPart)->second);
  return {bytes_of_memory(*tensor), tensor};
}

void ShardedUpdate::broadcast_from_first(const torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  const bool is_first = group_.rank() == 0;
  const ParameterNames names(module);
  json told = nullptr;
  if (is_first) {
    OptimizerState whole = capture_optimizer(optimizer_, names);
    json parts = json::array();
    for (const Part& part : parts_) {
      const auto state = read_parameter_state(optimizer_, part.parameter);
      json tensors = json::object();
      if (state)
        for (const auto& [name, tensor] : state->tensors)
          tensors[name] = static_cast<int>(tensor.scalar_type());
      parts.push_back(state ? json{{"numbers", state->numbers}, {"tensors", tensors}} : json());
    }
    whole.scalars["state"] = json::object();
    told = {{"options", whole.scalars}, {"parts", parts}};
  }
  told =
      json::parse(parallel::broadcast_text(group_, is_first ? told.dump() : "", 0, {deadline()}));
  const json& parts = told.at("parts");
  const bool has_state =
      std::any_of(parts.begin(), parts.end(), [](const json& part) { return !part.is_null(); });
  if (!is_first)
    restore_optimizer(optimizer_, names, {.tensors = {}, .scalars = told.at("options")});
  for (std::size_t i = 0; i < parts_.size() && has_state; ++i)
    divide(i, parts.at(i),
           is_first ? read_parameter_state(optimizer_, parts_[i].parameter) : std::nullopt);
  optimizer_.state().clear();
  reads_->publish();
}

// Rank 0 has the `whole` state; every rank keeps its slices. One tensor at a time.
void ShardedUpdate::divide(std::size_t number, const json& description,
                           const std::optional<ParameterState>& whole) {
  const Part& part = parts_[number];
  std::optional<ParameterState> own;
  if (!description.is_null()) {
    own.emplace();
    description.at("numbers").get_to(own->numbers);
    for (const auto& [name, dtype] : description.at("tensors").items()) {
      torch::Tensor values =
          whole ? laid_out_like(part.parameter, whole->tensors.at(name))
                : torch::empty_like(part.parameter.detach(),
                                    part.parameter.options().requires_grad(false).dtype(
                                        static_cast<torch::ScalarType>(dtype.get<int>())));
      group_.broadcast(values.data_ptr(), static_cast<std::size_t>(values.numel()),
                       parallel::data_type_of(values.scalar_type()), 0, {deadline()});
      const Slice slice = partition_->slice(number, group_.rank());
      if (slice.count > 0) own->tensors[name] = flat_slice(values, slice).clone();
    }
  }
  if (part.slice.defined()) write_parameter_state(*own_, part.slice, own);
}

void ShardedUpdate::gather_state() {
  const torch::NoGradGuard no_grad;
  if (!optimizer_.state().empty()) return;  // not divided yet
  for (std::size_t i = 0; i < parts_.size(); ++i)
    write_parameter_state(optimizer_, parts_[i].parameter, whole_state(i));
  gathered_ = true;
}

std::optional<ParameterState> ShardedUpdate::whole_state(std::size_t number) {
  const Part& part = parts_[number];
  const int owner = first_owner(number);
  const json description =
      owner == group_.rank()
          ? describe(number)
          : json::parse(reads_->read_text(owner, kStateText, static_cast<std::int64_t>(number),
                                          deadline()));
  if (description.is_null()) return std::nullopt;
  ParameterState state;
  description.at("numbers").get_to(state.numbers);
  std::int64_t field = static_cast<std::int64_t>(number) * kFieldsOfPart;
  for (const auto& [name, dtype] : description.at("tensors").items()) {
    const torch::Tensor whole = torch::empty_like(
        part.parameter.detach(), part.parameter.options().requires_grad(false).dtype(
                                     static_cast<torch::ScalarType>(dtype.get<int>())));
    for (int rank = 0; rank < group_.size(); ++rank) {
      const Slice slice = partition_->slice(number, rank);
      if (slice.count == 0) continue;
      torch::Tensor place = flat_slice(whole, slice);
      if (rank == group_.rank())
        place.copy_(read_parameter_state(*own_, part.slice)->tensors.at(name));
      else
        reads_->read(rank, kStateTensor, field, bytes_of_memory(place), deadline());
    }
    state.tensors[name] = whole;
    ++field;
  }
  return state;
}

void ShardedUpdate::release_state() {
  if (std::exchange(gathered_, false)) optimizer_.state().clear();
}

}  // namespace cohort::train

#include "cohort/train/sync/sharded_update.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/parallel/element_types.h"
#include "cohort/parallel/gradients/gradient_sync.h"
#include "cohort/parallel/gradients/running_squares.h"
#include "cohort/parallel/text_exchange.h"
#include "cohort/train/checkpoint/optimizer_clone.h"
#include "cohort/train/checkpoint/optimizer_state.h"
#include "cohort/train/model/optimizer_parameters.h"
#include "cohort/train/sync/one_pass_step.h"

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

ShardedUpdate::ShardedUpdate(collective::Group& group, const parallel::Mesh& mesh,
                             const torch::nn::Module& module,
                             const parallel::NamedTensors& parameters,
                             torch::optim::Optimizer& optimizer, parallel::Shard shard,
                             std::chrono::milliseconds timeout)
    : group_(group), optimizer_(optimizer), timeout_(timeout), parameters_(parameters) {
  if (group.backend_name() == "mpi")
    throw InvalidInput(fmt::format("shard is {}, but MPI carries no reads beside its collectives",
                                   to_string(shard)),
                       {.advice = "Leave --transport mpi out, or set shard to none."});
  const torch::NoGradGuard no_grad;
  add_parts(parameters);
  std::vector<parallel::ParameterSize> sizes;
  for (const Part& part : parts_)
    sizes.push_back({static_cast<std::size_t>(part.parameter.numel()),
                     static_cast<std::size_t>(part.parameter.element_size())});
  partition_.emplace(sizes, mesh.size("shard"));
  const std::vector<int> ranks = mesh.line("shard", group.rank());
  COHORT_CHECK(static_cast<int>(ranks.size()) == group.size(), "{} of {} ranks divide a model",
               ranks.size(), group.size());
  std::vector<torch::Tensor> from, to;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Slice own = partition_->slice(i, group.rank());
    dropped_parts_.push_back(shard == parallel::Shard::parameters && partition_->is_cut(i) &&
                             parts_[i].parameter.requires_grad() &&
                             parallel::DroppedParameters::can_drop(parts_[i].parameter));
    if (own.count > 0) {
      const torch::Tensor slice = flat_slice(parts_[i].parameter, own);
      parts_[i].slice =
          (dropped_parts_.back() != 0 ? slice.clone() : slice).set_requires_grad(true);
    }
    from.push_back(parts_[i].parameter);
    to.push_back(parts_[i].slice);
  }
  own_ = clone_optimizer(optimizer, from, to);
  if (shard != parallel::Shard::optimizer)
    shares_ = std::make_shared<parallel::GradientShares>(from, *partition_, group.rank());
  add_updated();
  reads_.emplace(group, ranks,
                 [this](std::int64_t kind, std::int64_t item) { return answer(kind, item); });
  if (shard == parallel::Shard::parameters) drop_parameters(module);
}

ShardedUpdate::~ShardedUpdate() = default;

void ShardedUpdate::add_parts(const parallel::NamedTensors& parameters) {
  std::unordered_map<const void*, std::string> names;
  for (const auto& [name, parameter] : parameters)
    names.emplace(parameter.unsafeGetTensorImpl(), name);
  for (const torch::Tensor& parameter : parameters_of(optimizer_)) {
    parts_.push_back({names[parameter.unsafeGetTensorImpl()], parameter, {}});
    check_divisible(parts_.back().name, parameter);
  }
}

// Those of one module come and go together.
void ShardedUpdate::drop_parameters(const torch::nn::Module& module) {
  std::unordered_map<const void*, std::size_t> units;
  std::size_t next = 0;
  const auto add_unit = [&](const torch::nn::Module& one) {
    const std::size_t unit = next;
    for (const torch::Tensor& parameter : one.parameters(/*recurse=*/false))
      if (parameter.defined() && units.emplace(parameter.unsafeGetTensorImpl(), unit).second)
        next = unit + 1;
  };
  add_unit(module);
  for (const auto& one : module.modules(/*include_self=*/false)) add_unit(*one);
  std::vector<parallel::DroppedParameters::Member> members;
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (is_dropped(i))
      members.push_back({parts_[i].parameter, i,
                         units.at(parts_[i].parameter.unsafeGetTensorImpl()),
                         parts_[i].slice.detach()});
  dropped_.emplace(std::move(members), *partition_, *reads_, kSlice, group_.rank(), timeout_);
}

bool ShardedUpdate::is_dropped(std::size_t part) const { return dropped_parts_[part] != 0; }

void ShardedUpdate::begin_forward() {
  if (dropped_) dropped_->begin();
}

void ShardedUpdate::gather_parameters() {
  if (dropped_) dropped_->gather_all();
}

void ShardedUpdate::add_updated() {
  std::unordered_map<const void*, torch::Tensor> slices;
  for (const Part& part : parts_)
    if (shares_ && shares_->find(part.parameter) != nullptr)
      slices.emplace(part.parameter.unsafeGetTensorImpl(), part.slice);
  std::set<const void*> seen;
  for (const auto& [name, parameter] : parameters_) {
    if (!seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
    const auto found = slices.find(parameter.unsafeGetTensorImpl());
    updated_.emplace_back(name, found == slices.end() ? parameter : found->second);
  }
}

void ShardedUpdate::begin_step() {
  for (Part& part : parts_)
    if (const auto* share = shares_ ? shares_->find(part.parameter) : nullptr)
      part.slice.mutable_grad() = share->own;
}

bool ShardedUpdate::unscale(LossScale& scale) {
  if (!scale.is_active()) return true;
  std::vector<torch::Tensor> tensors;
  for (const auto& [name, tensor] : updated_) tensors.push_back(tensor);
  std::int32_t finite = scale.divide(tensors) ? 1 : 0;
  if (shares_)
    group_.all_reduce(std::span(&finite, 1),
                      {.op = collective::ReduceOp::minimum, .deadline = deadline()});
  scale.update(finite != 0);
  return finite != 0;
}

// The squares of a divided gradient are added up where its slices are, in the ranks' order, from
// where the rank before has ended: the order of addition is that over the whole gradient.
double ShardedUpdate::clip(double max_norm) {
  if (!shares_) return parallel::clip_gradients(parameters_, max_norm);
  const torch::NoGradGuard no_grad;
  std::vector<parallel::RunningSquares> squares(parts_.size());
  std::unordered_map<const void*, const parallel::RunningSquares*> of_slice;
  for (int rank = 0; rank < group_.size(); ++rank) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const auto* share = shares_->find(parts_[i].parameter);
      if (share == nullptr) continue;
      of_slice[parts_[i].slice.unsafeGetTensorImpl()] = &squares[i];
      if (rank == group_.rank()) squares[i].add(parts_[i].slice.grad());
    }
    group_.broadcast(squares.data(), squares.size() * parallel::RunningSquares::kRuns,
                     collective::DataType::f64, rank, {deadline()});
  }
  double total = 0;
  for (const auto& [name, tensor] : updated_) {
    if (!tensor.grad().defined()) continue;
    const auto found = of_slice.find(tensor.unsafeGetTensorImpl());
    total +=
        found == of_slice.end() ? parallel::sum_of_squares(tensor.grad()) : found->second->total();
  }
  const double norm = std::sqrt(total);
  if (std::isfinite(norm) && norm > max_norm)
    for (const auto& [name, tensor] : updated_)
      if (tensor.grad().defined()) tensor.grad().mul_(max_norm / norm);
  return norm;
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
    if (!part.slice.defined() || part.slice.grad().defined() || !part.parameter.grad().defined())
      continue;
    part.slice.mutable_grad() = flat_slice(laid_out_like(part.parameter, part.parameter.grad()),
                                           partition_->slice(i, group_.rank()));
  }
  step_in_one_pass(*own_);
  for (Part& part : parts_)
    if (part.slice.defined()) part.slice.mutable_grad().reset();
  gather_updated();
  if (dropped_) dropped_->renew();
  reads_->publish();
}

void ShardedUpdate::gather_updated() {
  std::set<torch::ScalarType> whole;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const torch::Tensor& parameter = parts_[i].parameter;
    if (!parameter.requires_grad() || is_dropped(i)) continue;
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
  if (kind == kSlice) {
    const auto slice =
        std::make_shared<torch::Tensor>(parts_[static_cast<std::size_t>(item)].slice);
    return {bytes_of_memory(*slice), slice};
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
  if (dropped_) dropped_->keep();
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
  gather_parameters();
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

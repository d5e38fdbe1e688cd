#include "cohort/train/sync/server_model.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "cohort/base/error.h"
#include "cohort/parallel/gradients/bucket.h"
#include "cohort/train/checkpoint/optimizer_slots.h"

namespace cohort::train {
namespace {

ps::ElementType element_type(const std::string& name, torch::ScalarType type) {
  if (type == torch::kFloat) return ps::ElementType::f32;
  if (type == torch::kDouble) return ps::ElementType::f64;
  throw InvalidInput(fmt::format("{} is of type {}, which parameter servers do not hold", name,
                                 torch::toString(type)),
                     {.advice = "Make it f32 (precision = bf16 computes in bf16 all the same)."});
}

torch::ScalarType scalar_type(ps::ElementType type) {
  return type == ps::ElementType::f32 ? torch::kFloat : torch::kDouble;
}

// Whether values can be written into its memory in the bucket's order.
bool is_direct(const torch::Tensor& parameter) {
  return parameter.device().is_cpu() &&
         parameter.strides() == torch::IntArrayRef(parallel::gradient_strides(parameter));
}

std::byte* data_of(const torch::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.data_ptr());
}

}  // namespace

ServerModel::ServerModel(const parallel::GradientSync& gradients, parallel::BufferPartials& buffers,
                         torch::optim::Optimizer& optimizer)
    : buffers_(buffers), optimizer_(optimizer) {
  spec_.groups = update_rules(optimizer);
  std::unordered_map<const void*, int> group_of;
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i)
    for (const auto& parameter : optimizer.param_groups()[i].params())
      group_of.emplace(parameter.unsafeGetTensorImpl(), static_cast<int>(i));
  const int idle = static_cast<int>(spec_.groups.size());  // of what the optimizer does not have
  spec_.groups.push_back({.kind = ps::UpdateRule::Kind::sgd, .lr = 0});
  spec_.groups.push_back({.kind = ps::UpdateRule::Kind::replace, .lr = 0});

  for (const parallel::BucketLayout& layout : gradients.layouts()) {
    ps::Block block{.elements = layout.elements, .parts = {}};
    for (const parallel::BucketEntry& entry : layout.entries) {
      const auto i = static_cast<std::size_t>(entry.parameter);
      const torch::Tensor& parameter = gradients.parameters()[i];
      block.type = element_type(gradients.names()[i], layout.dtype);
      const auto found = group_of.find(parameter.unsafeGetTensorImpl());
      const int group = found == group_of.end() ? idle : found->second;
      block.parts.push_back({gradients.names()[i], entry.offset, entry.elements, group});
      places_.push_back({static_cast<int>(spec_.blocks.size()), parameter, entry.offset, group});
    }
    spec_.blocks.push_back(std::move(block));
  }
  buffer_elements_ =
      buffers.floating_elements() + buffers.integer_elements() + buffers.boolean_elements();
  for (std::size_t i = 0; i < places_.size(); ++i) stage(i);
  if (buffer_elements_ == 0) return;
  const auto elements = static_cast<std::uint64_t>(buffer_elements_);
  spec_.blocks.push_back({.type = ps::ElementType::f64,
                          .elements = elements,
                          .parts = {{"the model's buffers", 0, elements, idle + 1}}});
  buffer_values_ = torch::empty({buffer_elements_}, torch::kDouble);
  runs_.push_back({buffer_block(), 0, elements, data_of(buffer_values_)});
}

void ServerModel::stage(std::size_t number) {
  const Place& place = places_[number];
  torch::Tensor target = place.parameter;
  if (!is_direct(place.parameter)) {
    target =
        torch::empty_strided(place.parameter.sizes(), parallel::gradient_strides(place.parameter),
                             torch::TensorOptions()
                                 .dtype(place.parameter.scalar_type())
                                 .pinned_memory(place.parameter.is_cuda()));
    staged_.emplace_back(number, target);
  }
  runs_.push_back(
      {place.block, place.offset, static_cast<std::uint64_t>(target.numel()), data_of(target)});
}

std::vector<double> ServerModel::learning_rates() const {
  std::vector<double> rates;
  for (const auto& group : optimizer_.param_groups()) rates.push_back(group.options().get_lr());
  rates.resize(spec_.groups.size(), 0);
  return rates;
}

void ServerModel::place_values() {
  const torch::NoGradGuard no_grad;
  for (const auto& [place, copy] : staged_) places_[place].parameter.copy_(copy);
  if (has_buffers()) set_buffers(buffer_values_);
}

// ---- buffers

torch::Tensor ServerModel::packed_buffers() const {
  return torch::cat({buffers_.floating_values(), buffers_.integer_values().to(torch::kDouble),
                     buffers_.boolean_values().to(torch::kDouble)});
}

void ServerModel::set_buffers(const torch::Tensor& values) {
  const std::int64_t floating = buffers_.floating_elements();
  const std::int64_t integer = buffers_.integer_elements();
  buffers_.set_floating(values.narrow(0, 0, floating));
  buffers_.set_integer(values.narrow(0, floating, integer).round().to(torch::kLong));
  buffers_.set_boolean(values.narrow(0, floating + integer, buffers_.boolean_elements()).ge(0.5));
}

// Integers and booleans are weighed like the rest, and rounded when they come back.
std::span<const std::byte* const> ServerModel::buffer_partials(double weight) {
  const torch::NoGradGuard no_grad;
  const std::size_t nodes = buffers_.partials().size();
  buffer_nodes_.clear();
  buffer_pointers_.clear();
  const std::int64_t floating = buffers_.floating_elements();
  const std::int64_t integer = buffers_.integer_elements();
  for (std::size_t node = 0; node < nodes; ++node) {
    torch::Tensor all = torch::zeros({buffer_elements_}, torch::kDouble);
    if (floating > 0) all.narrow(0, 0, floating).copy_(buffers_.partials()[node]);
    if (node + 1 == nodes) {
      if (integer > 0) all.narrow(0, floating, integer).copy_(buffers_.largest()).mul_(weight);
      if (buffers_.boolean_elements() > 0)
        all.narrow(0, floating + integer, buffers_.boolean_elements())
            .copy_(buffers_.first())
            .mul_(weight);
    }
    buffer_pointers_.push_back(data_of(all));
    buffer_nodes_.push_back(std::move(all));
  }
  return buffer_pointers_;
}

std::span<const std::byte* const> ServerModel::unchanged_buffers() {
  const torch::NoGradGuard no_grad;
  const std::size_t nodes = buffers_.partials().size();
  buffer_nodes_.assign(nodes, torch::zeros({buffer_elements_}, torch::kDouble));
  buffer_nodes_.back() = packed_buffers();
  buffer_pointers_.clear();
  for (const torch::Tensor& node : buffer_nodes_) buffer_pointers_.push_back(data_of(node));
  return buffer_pointers_;
}

// ---- the whole state

std::size_t ServerModel::element_bytes(int block) const {
  return ps::size_of(spec_.blocks[static_cast<std::size_t>(block)].type);
}

std::vector<std::byte> ServerModel::make_block(int block) const {
  return std::vector<std::byte>(spec_.blocks[static_cast<std::size_t>(block)].elements *
                                element_bytes(block));
}

torch::Tensor ServerModel::view(std::byte* block, const Place& place) const {
  const ps::ElementType type = spec_.blocks[static_cast<std::size_t>(place.block)].type;
  return torch::from_blob(block + place.offset * ps::size_of(type), place.parameter.sizes(),
                          parallel::gradient_strides(place.parameter),
                          torch::TensorOptions().dtype(scalar_type(type)));
}

void ServerModel::pack(int block, int slot, std::vector<std::byte>& to) const {
  const torch::NoGradGuard no_grad;
  to = make_block(block);
  if (has_buffers() && block == buffer_block()) {
    std::memcpy(to.data(), packed_buffers().data_ptr(), to.size());
    return;
  }
  for (const Place& place : places_) {
    if (place.block != block) continue;
    const ps::UpdateRule& rule = spec_.groups[static_cast<std::size_t>(place.group)];
    torch::Tensor target = view(to.data(), place);
    if (slot < 0) {
      target.copy_(place.parameter);
    } else if (slot < ps::slot_count(rule)) {
      const torch::Tensor found =
          find_slot(optimizer_, place.parameter, std::string(ps::slot_name(rule, slot)));
      if (found.defined())
        target.copy_(found);
      else
        target.fill_(ps::initial_slot_value(rule, slot));
    }
  }
}

ps::InitialState ServerModel::initial_state(std::int64_t first_step) const {
  ps::InitialState initial;
  initial.first_step = static_cast<std::uint64_t>(first_step);
  std::int64_t updates = -1;
  for (const Place& place : places_) {
    if (static_cast<std::size_t>(place.group) >= optimizer_.param_groups().size()) continue;
    const std::int64_t own = updates_of(optimizer_, place.parameter, first_step);
    if (updates >= 0 && own != updates)
      throw InvalidInput(
          fmt::format("the optimizer has made {} updates of one parameter and {} of another",
                      updates, own),
          {.advice = "Parameter servers need a state in which all have the same number."});
    updates = own;
  }
  initial.updates = static_cast<std::uint64_t>(std::max<std::int64_t>(updates, 0));
  struct Cache {
    int block = -1;
    int slot = -1;
    std::vector<std::byte> bytes;
  };
  initial.read = [this, cache = std::make_shared<Cache>()](int block, int slot,
                                                           std::uint64_t offset,
                                                           std::uint64_t elements, std::byte* to) {
    if (cache->block != block || cache->slot != slot) {
      pack(block, slot, cache->bytes);
      cache->block = block;
      cache->slot = slot;
    }
    std::memcpy(to, cache->bytes.data() + offset * element_bytes(block),
                elements * element_bytes(block));
  };
  return initial;
}

ps::StateSink ServerModel::state_sink() {
  taken_.assign(spec_.blocks.size(), {});
  ps::StateSink sink;
  sink.slice = [this](int block, int slot, std::uint64_t offset, std::uint64_t elements,
                      std::uint64_t updates, const std::byte* from) {
    auto& slots = taken_[static_cast<std::size_t>(block)];
    const auto number = static_cast<std::size_t>(slot + 1);
    if (slots.size() <= number) slots.resize(number + 1);
    if (slots[number].empty()) slots[number] = make_block(block);
    std::memcpy(slots[number].data() + offset * element_bytes(block), from,
                elements * element_bytes(block));
    if (!has_buffers() || block != buffer_block())
      taken_updates_ = static_cast<std::int64_t>(updates);
  };
  return sink;
}

void ServerModel::finish_state() {
  const torch::NoGradGuard no_grad;
  for (Place& place : places_) {
    auto& slots = taken_[static_cast<std::size_t>(place.block)];
    if (slots.empty() || slots[0].empty()) continue;
    place.parameter.copy_(view(slots[0].data(), place));
    if (static_cast<std::size_t>(place.group) >= optimizer_.param_groups().size()) continue;
    const ps::UpdateRule& rule = spec_.groups[static_cast<std::size_t>(place.group)];
    std::vector<torch::Tensor> tensors;
    for (int slot = 0; slot < ps::slot_count(rule); ++slot) {
      tensors.push_back(torch::empty_like(place.parameter.detach()));
      tensors.back().copy_(view(slots.at(static_cast<std::size_t>(slot) + 1).data(), place));
    }
    set_state(optimizer_, place.parameter, rule, tensors, taken_updates_);
  }
  if (has_buffers() && !taken_.back().empty())
    set_buffers(torch::from_blob(taken_.back()[0].data(), {buffer_elements_}, torch::kDouble));
  taken_.clear();
}

}  // namespace cohort::train

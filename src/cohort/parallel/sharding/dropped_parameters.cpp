#include "cohort/parallel/sharding/dropped_parameters.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/parallel/tensors/operation_inputs.h"

namespace cohort::parallel {

namespace {

// How deep this thread is in operations that call others; and whether it is in a callback.
thread_local int depth_of_operations = 0;
thread_local bool in_touch = false;

struct EndOfOperation : at::ObserverContext {};

// What the autograd engine records around the operations of backward is none itself.
bool is_of_the_engine(const at::RecordFunction& operation) {
  return std::string_view(operation.name()).starts_with("autograd::");
}

void give_back_block(void* context) {
  BlockPool::give_back(std::unique_ptr<BlockPool::Block>(static_cast<BlockPool::Block*>(context)));
}

const c10::StorageImpl* storage_of(const torch::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->has_storage() ? tensor.storage().unsafeGetStorageImpl()
                                                     : nullptr;
}

}  // namespace

// Which storages are of dropped parameters, in the whole process, and LibTorch's callback.
struct ParameterTouches {
  struct Place {
    DroppedParameters* owner;
    std::size_t unit;
  };
  std::shared_mutex mutex;
  std::unordered_map<const c10::StorageImpl*, Place> places;

  static ParameterTouches& of_process() {
    static ParameterTouches* const touches = [] {
      auto* made = new ParameterTouches;  // operations may come until the process has ended
      at::addGlobalCallback(at::RecordFunctionCallback(&on_begin, &on_end)
                                .needsInputs(true)
                                .scopes({at::RecordScope::FUNCTION}));
      return made;
    }();
    return *touches;
  }

  static std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& operation) {
    if (depth_of_operations == 0 && is_of_the_engine(operation)) return nullptr;
    const bool outermost = depth_of_operations++ == 0;
    if (!in_touch) of_process().note(operation, outermost);
    return std::make_unique<EndOfOperation>();
  }
  static void on_end(const at::RecordFunction&, at::ObserverContext* counted) {
    if (counted != nullptr) --depth_of_operations;
  }

  using Units = std::map<DroppedParameters*, std::vector<std::size_t>>;

  void note(const at::RecordFunction& operation, bool outermost) {
    Units used;
    {
      const std::shared_lock lock(mutex);
      if (places.empty()) return;
      for (const c10::IValue& input : inputs_of(operation)) find(input, used);
    }
    try {
      for (const auto& [owner, units] : used) owner->touch(units, outermost);
    } catch (const std::exception& error) {  // LibTorch goes on without what its callbacks do
      log::error("{} does not get its parameters: {}", operation.name(), error.what());
    }
  }

  void find(const c10::IValue& input, Units& used) {
    if (input.isTensor()) {
      const torch::Tensor& tensor = input.toTensor();
      const c10::StorageImpl* storage = tensor.defined() ? storage_of(tensor) : nullptr;
      const auto found = storage == nullptr ? places.end() : places.find(storage);
      if (found == places.end()) return;
      std::vector<std::size_t>& units = used[found->second.owner];
      if (std::find(units.begin(), units.end(), found->second.unit) == units.end())
        units.push_back(found->second.unit);
    } else if (input.isTensorList()) {
      for (const torch::Tensor& item : input.toTensorVector()) find(item, used);
    } else if (input.isList()) {
      for (const c10::IValue& item : input.toListRef()) find(item, used);
    }
  }
};

bool DroppedParameters::can_drop(const torch::Tensor& parameter) {
  return parameter.device().is_cpu() && parameter.storage_offset() == 0 &&
         parameter.unsafeGetTensorImpl()->is_non_overlapping_and_dense() &&
         parameter.storage().nbytes() == parameter.nbytes();
}

DroppedParameters::DroppedParameters(std::vector<Member> members, const Partition& partition,
                                     PeerReads& reads, std::int64_t kind, int rank,
                                     std::chrono::milliseconds timeout)
    : members_(std::move(members)),
      partition_(partition),
      reads_(reads),
      kind_(kind),
      rank_(rank),
      timeout_(timeout),
      memory_(BlockPool::of_this_process()) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].unit >= units_.size()) units_.resize(members_[i].unit + 1);
    units_[members_[i].unit].members.push_back(i);
  }
  for (Unit& unit : units_) unit.gathered = true;
  ParameterTouches& touches = ParameterTouches::of_process();
  const std::unique_lock lock(touches.mutex);
  for (const Member& member : members_)
    touches.places[storage_of(member.parameter)] = {this, member.unit};
}

DroppedParameters::~DroppedParameters() {
  ParameterTouches& touches = ParameterTouches::of_process();
  {
    const std::unique_lock lock(touches.mutex);
    for (const Member& member : members_) touches.places.erase(storage_of(member.parameter));
  }
  for (Unit& unit : units_)
    for (collective::Work& read : unit.reads) {
      try {
        read.wait();   // its memory is about to go
      } catch (...) {  // it is not needed any more
      }
    }
}

void DroppedParameters::touch(std::span<const std::size_t> units, bool outermost) {
  if (whole_) return;
  const bool all_there = std::all_of(units.begin(), units.end(),
                                     [&](std::size_t unit) { return units_[unit].gathered; });
  if (all_there && (!outermost || (units.size() == 1 && units[0] == current_))) return;
  in_touch = true;
  struct Reset {
    ~Reset() { in_touch = false; }
  } const reset;
  for (const std::size_t unit : units) finish(units_[unit]);
  if (!outermost) return;
  for (const std::size_t unit : units) follow(unit);
  const auto next = after_.find({before_, current_});
  const std::size_t coming = next == after_.end() ? kNone : next->second;
  for (std::size_t i = 0; i < units_.size(); ++i)
    if (i != coming && i != before_ && std::find(units.begin(), units.end(), i) == units.end())
      drop(units_[i]);
  if (coming != kNone) request(units_[coming]);
}

void DroppedParameters::follow(std::size_t unit) {
  if (unit == current_) return;
  if (current_ != kNone) after_[{before_, current_}] = unit;
  before_ = std::exchange(current_, unit);
}

void DroppedParameters::request(Unit& unit) {
  if (unit.gathered || !unit.arriving.empty()) return;
  for (const std::size_t i : unit.members) {
    const Member& member = members_[i];
    auto block = memory_->take(member.parameter.nbytes());
    COHORT_CHECK(block != nullptr, "no memory for a parameter of {} bytes",
                 member.parameter.nbytes());
    auto* values = static_cast<std::byte*>(block->memory.get());
    const auto element = static_cast<std::size_t>(member.parameter.element_size());
    for (int rank = 0; rank < partition_.ranks(); ++rank) {
      const Slice slice = partition_.slice(member.index, rank);
      std::byte* const place = values + slice.from * element;
      if (rank == rank_)
        std::memcpy(place, member.own.data_ptr(), slice.count * element);
      else
        unit.reads.push_back(reads_.begin_read(rank, kind_, static_cast<std::int64_t>(member.index),
                                               {place, slice.count * element}, deadline()));
    }
    unit.arriving.push_back(std::move(block));
  }
}

void DroppedParameters::finish(Unit& unit) {
  if (unit.gathered) return;
  request(unit);
  for (collective::Work& read : unit.reads) read.wait();
  unit.reads.clear();
  for (std::size_t i = 0; i < unit.members.size(); ++i)
    set_memory(members_[unit.members[i]], std::move(unit.arriving[i]));
  unit.arriving.clear();
  unit.gathered = true;
}

void DroppedParameters::set_memory(const Member& member, std::unique_ptr<BlockPool::Block> block) {
  c10::StorageImpl& storage = *member.parameter.storage().unsafeGetStorageImpl();
  void* const data = block ? block->memory.get() : nullptr;
  storage.set_data_ptr(
      block ? at::DataPtr(data, block.release(), &give_back_block, at::Device(at::kCPU))
            : at::DataPtr(nullptr, at::Device(at::kCPU)));
}

void DroppedParameters::drop(Unit& unit) {
  if (!unit.arriving.empty()) {  // it was asked for, and is not needed
    for (collective::Work& read : unit.reads) read.wait();
    unit.reads.clear();
    for (auto& block : unit.arriving) BlockPool::give_back(std::move(block));
    unit.arriving.clear();
  }
  if (!unit.gathered) return;
  for (const std::size_t i : unit.members) set_memory(members_[i], nullptr);
  unit.gathered = false;
}

void DroppedParameters::gather_all() {
  in_touch = true;
  struct Reset {
    ~Reset() { in_touch = false; }
  } const reset;
  for (Unit& unit : units_) finish(unit);
  whole_ = true;
}

void DroppedParameters::keep() {
  COHORT_CHECK(whole_, "keep() of parameters that are not whole");
  for (Member& member : members_) {
    const Slice slice = partition_.slice(member.index, rank_);
    const auto element = static_cast<std::size_t>(member.parameter.element_size());
    std::memcpy(member.own.data_ptr(),
                static_cast<const std::byte*>(member.parameter.data_ptr()) + slice.from * element,
                slice.count * element);
  }
}

void DroppedParameters::begin() {
  if (!std::exchange(whole_, false)) return;
  for (Unit& unit : units_) drop(unit);
}

void DroppedParameters::renew() {
  if (current_ != kNone) after_.erase({before_, current_});  // the step ends here
  before_ = current_ = kNone;
  if (whole_) return;
  for (Unit& unit : units_) drop(unit);
}

std::size_t DroppedParameters::gathered_bytes() const {
  std::size_t bytes = 0;
  for (const Unit& unit : units_)
    for (const std::size_t i : unit.members)
      if (unit.gathered || !unit.arriving.empty()) bytes += members_[i].parameter.nbytes();
  return bytes;
}

}  // namespace cohort::parallel

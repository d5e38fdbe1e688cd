#include "cohort/ps/state/server_state.h"

#include <algorithm>
#include <cstring>

#include "cohort/base/error.h"
#include "cohort/collective/reduction/kernels.h"
#include "cohort/ps/model/model_spec_checks.h"
#include "cohort/ps/model/model_spec_text.h"
#include "cohort/ps/rules/apply_update.h"
#include "cohort/ps/state/segment_layout.h"

namespace cohort::ps {
namespace {

using collective::copy_bytes;

template <typename T>
void fill(std::byte* to, std::uint64_t count, double value) {
  std::fill_n(reinterpret_cast<T*>(to), count, static_cast<T>(value));
}

double to_mebibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::uint64_t dense_bytes(const ServerShare& share, const ModelSpec& spec,
                          const std::string& text) {
  return SegmentLayout(share.shapes, spec.workers, text.size(), 0).tables;
}

void check_share(const Segment& segment, const ServerShare& share, const ModelSpec& spec) {
  bool same = segment.workers() == spec.workers &&
              static_cast<std::size_t>(segment.slices()) == share.shapes.size();
  for (int i = 0; same && i < segment.slices(); ++i) {
    const SliceShape& shape = share.shapes[static_cast<std::size_t>(i)];
    same = segment.shape(i).type == shape.type && segment.shape(i).elements == shape.elements &&
           segment.shape(i).slots == shape.slots;
  }
  if (!same)
    throw InvalidInput(
        "the memory that a parameter server left behind has other slices than this "
        "server's share of the model",
        {.advice = "Keep the number of servers (--ps), or start the job anew."});
}

}  // namespace

ServerState::ServerState(Options options, ModelSpec spec, std::string text)
    : options_(options),
      spec_(std::move(spec)),
      text_(std::move(text)),
      share_(spec_, options_.server, options_.servers),
      tables_(options_.server, spec_, dense_bytes(share_, spec_, text_), options_.memory_limit) {
  const std::uint64_t dense = dense_bytes(share_, spec_, text_);
  if (options_.memory_limit == 0 || dense <= options_.memory_limit) return;
  throw MemoryLimit(
      fmt::format("the parameters of ps/{} need {:.1f} MiB (values and optimizer state, twice), "
                  "over the limit of {:.1f} MiB",
                  options_.server, to_mebibytes(dense), to_mebibytes(options_.memory_limit)),
      {.advice = "Use more servers (--ps) or raise --ps_memory_limit."});
}

std::unique_ptr<ServerState> ServerState::create(int file, const ModelSpec& spec,
                                                 std::uint64_t first_step, Options options) {
  COHORT_CHECK(options.server >= 0 && options.server < options.servers, "server {} of {}",
               options.server, options.servers);
  check(spec);
  std::unique_ptr<ServerState> state(new ServerState(options, spec, to_text(spec)));
  state->segment_ = Segment::create(file, state->text_, spec.workers, state->share_.shapes,
                                    ServerTables::arena_bytes(spec), first_step);
  for (int i = 0; i < state->segment_->slices(); ++i) state->fill_slots(i);
  state->tables_.create(*state->segment_, first_step);
  return state;
}

std::unique_ptr<ServerState> ServerState::open(int file, Options options) {
  std::unique_ptr<Segment> segment = Segment::open(file);
  if (!segment) return nullptr;
  std::unique_ptr<ServerState> state(
      new ServerState(options, parse_model_spec(segment->spec()), segment->spec()));
  check_share(*segment, state->share_, state->spec_);
  state->segment_ = std::move(segment);
  state->tables_.open(*state->segment_);
  return state;
}

void ServerState::fill_slots(int slice) {
  const SliceSide side = segment_->current(slice);
  const ElementType type = segment_->shape(slice).type;
  for (const RuleRun& run : share_.runs[static_cast<std::size_t>(slice)]) {
    const UpdateRule& rule = spec_.groups[run.group];
    for (int slot = 0; slot < slot_count(rule); ++slot) {
      const double value = initial_slot_value(rule, slot);
      std::byte* to = side.slots[static_cast<std::size_t>(slot)] + run.first * size_of(type);
      if (value == 0) continue;
      type == ElementType::f32 ? fill<float>(to, run.count, value)
                               : fill<double>(to, run.count, value);
    }
  }
}

std::uint64_t ServerState::state_bytes(int slice) const {
  const SliceShape& shape = segment_->shape(slice);
  return shape.elements * size_of(shape.type) * (1 + static_cast<std::uint64_t>(shape.slots));
}

void ServerState::set_slice(int slice, std::uint64_t updates, std::span<const std::byte> bytes) {
  COHORT_CHECK(!segment_->is_initialised(), "slice {} counts already", slice);
  if (bytes.size() != state_bytes(slice))
    throw InvalidInput(fmt::format("{} bytes for slice {}, which takes {}", bytes.size(),
                                   share_.numbers[static_cast<std::size_t>(slice)],
                                   state_bytes(slice)));
  const SliceShape& shape = segment_->shape(slice);
  const std::size_t size = size_of(shape.type);
  const SliceSide side = segment_->current(slice);
  // Padding is left alone: it is zero, on both sides.
  for (const RuleRun& run : share_.runs[static_cast<std::size_t>(slice)])
    for (int array = 0; array <= slot_count(spec_.groups[run.group]); ++array) {
      std::byte* to = array == 0 ? side.values : side.slots[static_cast<std::size_t>(array - 1)];
      const std::uint64_t from =
          (static_cast<std::uint64_t>(array) * shape.elements + run.first) * size;
      copy_bytes(to + run.first * size, bytes.data() + from, run.count * size);
    }
  *side.updates = updates;
}

void ServerState::get_slice(int slice, std::uint64_t& updates, std::string& out) const {
  const SliceShape& shape = segment_->shape(slice);
  const std::uint64_t bytes = shape.elements * size_of(shape.type);
  const SliceSide side = segment_->current(slice);
  updates = *side.updates;
  out.append(reinterpret_cast<const char*>(side.values), bytes);
  for (int slot = 0; slot < shape.slots; ++slot)
    out.append(reinterpret_cast<const char*>(side.slots[static_cast<std::size_t>(slot)]), bytes);
}

void ServerState::mark_initialised() { segment_->mark_initialised(); }

std::uint64_t ServerState::version(const UpdateRecord& record) const {
  const int targets = record.kind == UpdateRecord::Kind::dense ? segment_->slices() : tables();
  if (record.target < 0 || record.target >= targets)
    throw InvalidInput(fmt::format("an update of {} {}; this server has {}",
                                   record.kind == UpdateRecord::Kind::dense ? "slice" : "table",
                                   record.target, targets));
  return record.kind == UpdateRecord::Kind::dense ? segment_->version(record.target)
                                                  : tables_.at(record.target).version();
}

bool ServerState::prepare(const UpdateRecord& record) {
  const std::uint64_t before = version(record);
  if (record.version != before + 1)
    throw InvalidInput(fmt::format("an update that makes version {} of something at version {}",
                                   record.version, before));
  if (record.learning_rates.size() != spec_.groups.size())
    throw InvalidInput(fmt::format("an update with {} learning rates for {} groups",
                                   record.learning_rates.size(), spec_.groups.size()));
  for (const auto& [worker, sequence] : record.ledger)
    if (worker < 0 || worker >= spec_.workers)
      throw InvalidInput(
          fmt::format("an update with a push of worker {} of {}", worker, spec_.workers));
  if (record.kind == UpdateRecord::Kind::dense) return prepare_slice(record);
  SparseTable& target = table(record.target);
  const auto group = static_cast<std::size_t>(target.spec().group);
  return target.prepare(RowGradients::decode(record.payload, target.spec().dimension),
                        record.learning_rates[group], record.version, record.ledger);
}

bool ServerState::prepare_slice(const UpdateRecord& record) {
  Segment& segment = *segment_;
  const SliceShape& shape = segment.shape(record.target);
  const std::uint64_t bytes = shape.elements * size_of(shape.type);
  if (!record.payload.empty() && record.payload.size() != bytes)
    throw InvalidInput(
        fmt::format("a gradient of {} bytes for a slice of {}", record.payload.size(), bytes));
  const SliceSide old = segment.current(record.target);
  const SliceSide next = segment.begin_update(record.target);
  std::ranges::copy(old.ledger, next.ledger.begin());
  for (const auto& [worker, sequence] : record.ledger) {
    std::uint64_t& entry = next.ledger[static_cast<std::size_t>(worker)];
    entry = std::max(entry, sequence);
  }
  if (record.payload.empty()) {
    *next.updates = *old.updates;
    copy_bytes(next.values, old.values, bytes);
    for (std::size_t slot = 0; slot < static_cast<std::size_t>(shape.slots); ++slot)
      copy_bytes(next.slots[slot], old.slots[slot], bytes);
    return true;
  }
  *next.updates = *old.updates + 1;
  bool finite = true;
  for (const RuleRun& run : share_.runs[static_cast<std::size_t>(record.target)]) {
    const UpdateRule& rule = spec_.groups[run.group];
    const std::uint64_t offset = run.first * size_of(shape.type);
    Update update;
    update.type = shape.type;
    update.elements = run.count;
    update.gradient = record.payload.data() + offset;
    update.values = old.values + offset;
    update.new_values = next.values + offset;
    for (std::size_t slot = 0; slot < static_cast<std::size_t>(slot_count(rule)); ++slot) {
      update.slots[slot] = old.slots[slot] + offset;
      update.new_slots[slot] = next.slots[slot] + offset;
    }
    update.number = *next.updates;
    update.lr = record.learning_rates[run.group];
    finite = apply(rule, update) && finite;
  }
  return finite;
}

void ServerState::publish(const UpdateRecord& record) {
  record.kind == UpdateRecord::Kind::dense ? segment_->publish(record.target)
                                           : table(record.target).commit();
}

void ServerState::abandon(const UpdateRecord& record) {
  record.kind == UpdateRecord::Kind::dense ? segment_->abandon_update(record.target)
                                           : table(record.target).roll_back();
}

}  // namespace cohort::ps

#include "cohort/ps/server/update_engine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::ps {

namespace {

using SteadyClock = std::chrono::steady_clock;

std::vector<std::vector<std::uint64_t>> settled_of(const std::vector<Aggregation>& queues,
                                                   int workers) {
  std::vector<std::vector<std::uint64_t>> settled;
  for (const Aggregation& queue : queues) {
    auto& row = settled.emplace_back();
    for (int worker = 0; worker < workers; ++worker) row.push_back(queue.settled(worker));
  }
  return settled;
}

std::vector<Aggregation> queues_of(ServerState& state, const AggregationRules& rules) {
  std::vector<Aggregation> queues;
  for (int slice = 0; slice < static_cast<int>(state.slices().size()); ++slice) {
    const auto ledger = state.segment().current(slice).ledger;
    queues.emplace_back(rules, state.segment().version(slice),
                        std::vector<std::uint64_t>(ledger.begin(), ledger.end()));
  }
  for (int table = 0; table < state.tables(); ++table) {
    std::vector<std::uint64_t> ledger;
    for (int worker = 0; worker < rules.workers; ++worker)
      ledger.push_back(state.table(table).ledger(worker));
    queues.emplace_back(rules, state.table(table).version(), std::move(ledger));
  }
  return queues;
}

double scale_of(std::span<const Contribution* const> used, int workers) {
  if (used.size() == static_cast<std::size_t>(workers)) return 1;
  double weight = 0;
  for (const Contribution* contribution : used) weight += contribution->weight;
  return weight > 0 ? 1 / weight : 1;
}

std::string number_text(std::span<const std::byte> bytes, ElementType type, std::size_t element) {
  const std::byte* at = bytes.data() + element * size_of(type);
  if (type == ElementType::f32) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return fmt::format("{}", value);
  }
  double value;
  std::memcpy(&value, at, sizeof value);
  return fmt::format("{}", value);
}

}  // namespace

UpdateEngine::UpdateEngine(ServerState& state, UpdateLog* log, ServerStats& stats, Events& events)
    : state_(state),
      log_(log),
      stats_(stats),
      events_(events),
      policy_(state.spec().policy),
      rules_(AggregationRules::of(policy_, state.spec().workers)),
      slices_(static_cast<int>(state.slices().size())),
      combiner_(rules_.workers, state.spec().shards),
      clocks_(policy_, rules_.workers, settled_of(queues_of(state, rules_), rules_.workers),
              SteadyClock::now()),
      seen_(static_cast<std::size_t>(rules_.workers)) {
  for (Aggregation& queue : queues_of(state, rules_)) {
    for (int worker = 0; worker < rules_.workers; ++worker) {
      std::uint64_t& seen = seen_[static_cast<std::size_t>(worker)];
      seen = std::max(seen, queue.settled(worker));
    }
    targets_.push_back({std::move(queue), std::nullopt, {}});
  }
}

void UpdateEngine::set_learning_rates(int worker, std::vector<double> rates) {
  if (worker == 0) chief_rates_ = std::move(rates);
}

std::vector<double> UpdateEngine::learning_rates(std::span<const Contribution> used) const {
  if (!chief_rates_.empty()) return chief_rates_;
  if (!used.front().learning_rates.empty()) return used.front().learning_rates;
  std::vector<double> rates;
  for (const UpdateRule& rule : state_.spec().groups) rates.push_back(rule.lr);
  return rates;
}

bool UpdateEngine::offer(int target, Contribution contribution) {
  ++stats_.pushes;
  stats_.bytes_in += contribution.bytes.size();
  const Settled push{contribution.worker, contribution.sequence, Values::Reason::applied};
  switch (of(target).queue.offer(std::move(contribution))) {
    case Aggregation::Arrival::applied:
      ++stats_.duplicates;
      events_.settled(target, push);
      return false;
    case Aggregation::Arrival::waits:
      ++stats_.duplicates;
      return true;
    case Aggregation::Arrival::late:
      ++stats_.dropped_late;
      events_.settled(target, {push.worker, push.sequence, Values::Reason::dropped_late});
      return false;
    case Aggregation::Arrival::queued:
      break;
  }
  std::uint64_t& seen = seen_[static_cast<std::size_t>(push.worker)];
  seen = std::max(seen, push.sequence);
  make_updates(target);
  return of(target).queue.has_from(push.worker);
}

void UpdateEngine::make_updates(int target) {
  while (!wants_snapshot_) {
    const auto used = of(target).queue.take(limits_);
    if (used.empty()) return;
    const auto began = SteadyClock::now();
    const bool made = prepare(target, used);
    stats_.update_seconds += std::chrono::duration<double>(SteadyClock::now() - began).count();
    if (!made) continue;
    if (log_ != nullptr) return;
    publish(target);
  }
}

// False: no update can be made of these; they were turned away.
bool UpdateEngine::prepare(int target, std::span<const Contribution> used) {
  Target& place = of(target);
  UpdateRecord record;
  record.kind = is_table(target) ? UpdateRecord::Kind::sparse : UpdateRecord::Kind::dense;
  record.target = is_table(target) ? target - slices_ : target;
  record.version = place.queue.version() + 1;
  record.learning_rates = learning_rates(used);
  for (const Contribution& contribution : used)
    record.ledger.emplace_back(contribution.worker, contribution.sequence);
  std::vector<const Contribution*> left;
  for (const Contribution& contribution : used) left.push_back(&contribution);
  place.dropped.clear();
  while (true) {
    record.payload = payload_of(target, left);
    bool finite = true;
    try {
      finite = state_.prepare(record);
    } catch (const InvalidInput& error) {  // no room for more rows
      std::vector<int> workers;
      for (const Contribution* contribution : left) workers.push_back(contribution->worker);
      place.queue.refuse(workers);
      for (int worker : workers) events_.rejected(worker, error.message(), error.context().advice);
      return false;
    }
    if (finite || left.empty() || policy_.not_finite == Policy::NotFinite::apply) break;
    state_.abandon(record);
    std::string first;
    const std::vector<int> culprits = not_finite(target, left, first);
    stats_.not_finite += culprits.size();
    if (policy_.not_finite == Policy::NotFinite::refuse) {
      place.queue.refuse(culprits);
      for (int worker : culprits)
        events_.rejected(worker, first,
                         "Lower the learning rate or look at this step's data; "
                         "--ps_not_finite=drop leaves such gradients out.");
      return false;
    }
    std::erase_if(left, [&](const Contribution* contribution) {
      return std::find(culprits.begin(), culprits.end(), contribution->worker) != culprits.end();
    });
    place.dropped.insert(place.dropped.end(), culprits.begin(), culprits.end());
  }
  for (const Contribution* contribution : left) {
    ++stats_.applied;
    const std::uint64_t version = place.queue.version();
    stats_.staleness.add(version - std::min(version, contribution->base_version));
  }
  place.pending = record;
  place.pending->payload = {};
  if (log_ != nullptr) {
    ++in_flight_;
    log_->append(record, [this, target] {
      --in_flight_;
      publish(target);
      make_updates(target);
    });
  }
  return true;
}

std::span<const std::byte> UpdateEngine::payload_of(int target,
                                                    std::span<const Contribution* const> used) {
  if (!is_table(target)) {
    if (used.empty()) return {};
    const Slice& slice = state_.slices()[static_cast<std::size_t>(target)];
    const Block& block = state_.spec().blocks[static_cast<std::size_t>(slice.block)];
    return combiner_.combine(used, block.type, slice.elements);
  }
  const int dimension = state_.spec().tables[static_cast<std::size_t>(target - slices_)].dimension;
  if (used.size() == 1 && scale_of(used, rules_.workers) == 1) return used[0]->bytes;
  std::vector<RowGradients> rows;
  std::vector<const RowGradients*> pointers;
  for (const Contribution* contribution : used)
    rows.push_back(RowGradients::decode(contribution->bytes, dimension));
  for (const RowGradients& row : rows) pointers.push_back(&row);
  rows_ = merge(pointers, dimension, scale_of(used, rules_.workers)).encode();
  return std::as_bytes(std::span(rows_));
}

// Whose gradient is at fault, and a sentence about the first. Where each alone is finite, their sum
// was too large: all of them.
std::vector<int> UpdateEngine::not_finite(int target, std::span<const Contribution* const> used,
                                          std::string& first) const {
  std::vector<int> culprits;
  const auto note = [&](const Contribution& contribution, const std::string& what) {
    if (culprits.empty())
      first = fmt::format("worker/{}'s gradient of {}", contribution.worker, what);
    culprits.push_back(contribution.worker);
  };
  for (const Contribution* contribution : used) {
    const std::uint64_t step = contribution->sequence - 1;
    if (is_table(target)) {
      const TableSpec& spec = state_.spec().tables[static_cast<std::size_t>(target - slices_)];
      const auto rows = RowGradients::decode(contribution->bytes, spec.dimension);
      const auto values = std::as_bytes(std::span(rows.values));
      const std::size_t at = first_not_finite(values, ElementType::f32);
      if (at < rows.values.size())
        note(*contribution, fmt::format("row {} of table {} in step {} is not finite ({})",
                                        rows.keys[at / static_cast<std::size_t>(spec.dimension)],
                                        spec.name, step, rows.values[at]));
      continue;
    }
    const Slice& slice = state_.slices()[static_cast<std::size_t>(target)];
    const Block& block = state_.spec().blocks[static_cast<std::size_t>(slice.block)];
    const std::size_t at = first_not_finite(contribution->bytes, block.type);
    if (at == contribution->bytes.size() / size_of(block.type)) continue;
    const std::uint64_t element = slice.offset + at % slice.elements;
    std::string name = fmt::format("block {}", slice.block);
    for (const Part& part : block.parts)
      if (element >= part.offset && element < part.offset + part.elements) name = part.name;
    note(*contribution, fmt::format("{} in step {} is not finite ({})", name, step,
                                    number_text(contribution->bytes, block.type, at)));
  }
  if (culprits.empty()) {
    first = fmt::format(
        "the sum of the workers' gradients in step {} is not finite, though each of them is",
        used.front()->sequence - 1);
    for (const Contribution* contribution : used) culprits.push_back(contribution->worker);
  }
  return culprits;
}

void UpdateEngine::publish(int target) {
  Target& place = of(target);
  state_.publish(*place.pending);
  place.pending.reset();
  ++stats_.updates;
  const std::vector<Settled> answers = place.queue.commit(place.dropped);
  if (rules_.together) {
    for (int worker = 0; worker < rules_.workers; ++worker)
      clocks_.settle(worker, place.queue.version());
  } else {
    for (const Settled& push : answers) clocks_.settle(push.worker, push.sequence);
  }
  for (const Settled& push : answers) {
    if (push.reason == Values::Reason::dropped_late) ++stats_.dropped_late;
    events_.settled(target, push);
  }
  events_.updated(target);
  if (log_ != nullptr && log_->wants_snapshot()) wants_snapshot_ = true;
  save_snapshot_if_wanted();
}

// A snapshot has to have every update that the log has before it: those in flight are waited for.
void UpdateEngine::save_snapshot_if_wanted() {
  if (!wants_snapshot_ || in_flight_ > 0) return;
  wants_snapshot_ = false;
  log_->save_snapshot(state_, [] {});
  for (int target = 0; target < targets(); ++target) make_updates(target);
}

void UpdateEngine::set_limits(std::span<const std::uint64_t> limits) {
  limits_.assign(limits.begin(), limits.end());
  for (int target = 0; target < targets(); ++target) make_updates(target);
}

std::vector<std::uint64_t> UpdateEngine::begun() const {
  if (!rules_.together) return seen_;
  std::uint64_t last = 0;
  for (const Target& target : targets_)
    last = std::max(last, target.queue.version() + (target.queue.is_busy() ? 1 : 0));
  return std::vector<std::uint64_t>(static_cast<std::size_t>(rules_.workers), last);
}

bool UpdateEngine::is_level() const {
  for (const Target& target : targets_) {
    if (target.queue.is_busy()) return false;
    for (std::size_t worker = 0; worker < limits_.size(); ++worker) {
      const int number = static_cast<int>(worker);
      if (target.queue.settled(number) < limits_[worker] &&
          (rules_.together || clocks_.can_come(number)))
        return false;
    }
  }
  return true;
}

}  // namespace cohort::ps

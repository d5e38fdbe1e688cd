#include "cohort/ps/server/training.h"

#include <algorithm>
#include <cmath>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/ps/wire/wire_type.h"

namespace cohort::ps {

Training::Training(std::unique_ptr<ServerState> state, UpdateLog* log, int server,
                   std::chrono::milliseconds worker_timeout, TrainingPeers& peers,
                   ServerStats& stats)
    : state_(std::move(state)),
      server_(server),
      worker_timeout_(worker_timeout),
      peers_(peers),
      rules_(AggregationRules::of(state_->spec().policy, state_->spec().workers)),
      engine_(*state_, log, stats, *this),
      tally_(server == 0 && rules_.together && rules_.required == rules_.workers, rules_.workers,
             state_->spec().shards),
      snapshots_(*state_, engine_, rules_.together, rules_.workers, peers_),
      pulls_(*state_, engine_.clocks(), rules_.together, peers_),
      workers_(static_cast<std::size_t>(rules_.workers)),
      slowest_(engine_.clocks().slowest()) {
  const auto numbers = state_->slice_numbers();
  for (std::size_t i = 0; i < numbers.size(); ++i) locals_[numbers[i]] = static_cast<int>(i);
  for (int worker = 0; worker < rules_.workers; ++worker) forget_connection(worker);
}

bool Training::is_table(int target) const { return target >= engine_.target_of_table(0); }

int Training::local(int slice) const {
  const auto found = locals_.find(slice);
  if (found == locals_.end())
    throw ProtocolError(fmt::format("slice {} is not of ps/{}", slice, server_));
  return found->second;
}

int Training::check_table(int table) const {
  if (table < 0 || table >= state_->tables())
    throw ProtocolError(
        fmt::format("there is no table {}; the model has {}", table, state_->tables()));
  return table;
}

ElementType Training::slice_type(int slice) const {
  return state_->segment().shape(local(slice)).type;
}

std::size_t Training::push_bytes(int worker, int slice, WireType wire) const {
  const SliceShape& shape = state_->segment().shape(local(slice));
  return wire_bytes(shape.type, wire, shape.elements) *
         static_cast<std::size_t>(engine_.combiner().nodes(worker));
}

void Training::came(int worker) { engine_.clocks().came(worker); }

void Training::forget_connection(int worker) {
  of(worker).held.clear();
  of(worker).asked.assign(static_cast<std::size_t>(engine_.targets()), 0);
  of(worker).asked_end = 0;
}

void Training::lost(int worker, Time now) {
  forget_connection(worker);
  pulls_.forget(worker);
  if (!engine_.clocks().has_left(worker)) engine_.clocks().lost(worker, now);
  snapshots_.release(worker);
}

void Training::begin_step(int worker, StepBegin begin) {
  const std::uint64_t finished = engine_.clocks().finished(worker);
  if (begin.sequence == 0 || (begin.sequence > finished && begin.sequence - finished > 1))
    throw ProtocolError(fmt::format("worker/{} begins sequence {}, but {} comes next", worker,
                                    begin.sequence, finished + 1));
  if (!std::isfinite(begin.weight) || begin.weight < 0)
    throw ProtocolError(
        fmt::format("worker/{} begins a step with weight {}", worker, begin.weight));
  const std::size_t groups = state_->spec().groups.size();
  if (!begin.learning_rates.empty() && begin.learning_rates.size() != groups)
    throw ProtocolError(fmt::format("worker/{} gives {} learning rates for {} groups", worker,
                                    begin.learning_rates.size(), groups));
  for (double rate : begin.learning_rates)
    if (!std::isfinite(rate))
      throw ProtocolError(fmt::format("worker/{} gives the learning rate {}", worker, rate));
  engine_.set_learning_rates(worker, begin.learning_rates);
  const std::uint64_t sequence = begin.sequence;
  of(worker).step = std::move(begin);
  answer_ends(tally_.begin(worker, sequence));
}

Contribution Training::contribution(int worker, std::uint64_t sequence, std::uint64_t base_version,
                                    Payload payload) {
  const StepBegin& step = of(worker).step;
  if (sequence != step.sequence || sequence == 0)
    throw ProtocolError(fmt::format("worker/{} pushes sequence {} in the step of sequence {}",
                                    worker, sequence, step.sequence));
  return {worker,
          sequence,
          base_version,
          step.weight,
          step.learning_rates,
          payload.bytes,
          std::move(payload.memory)};
}

void Training::offer(int target, Contribution contribution, Time now) {
  of(contribution.worker).asked[static_cast<std::size_t>(target)] = contribution.sequence;
  if (engine_.offer(target, std::move(contribution)) && rules_.together) check_enough(now);
}

void Training::push(int worker, const Push& push, Payload gradient, Time now) {
  const int target = local(push.slice);
  COHORT_CHECK(gradient.bytes.size() == push_bytes(worker, push.slice, WireType::exact),
               "{} bytes for slice {}", gradient.bytes.size(), push.slice);
  offer(target, contribution(worker, push.sequence, push.base_version, std::move(gradient)), now);
}

void Training::push_rows(int worker, const RowsPush& push, Payload rows, Time now) {
  const int table = check_table(push.table);
  const TableSpec& spec = state_->spec().tables[static_cast<std::size_t>(table)];
  RowGradients::decode(rows.bytes, spec.dimension);  // throws for sizes that do not fit
  offer(engine_.target_of_table(table),
        contribution(worker, push.sequence, push.base_version, std::move(rows)), now);
}

void Training::settled(int target, const Settled& push) {
  if (rules_.together || engine_.clocks().allows(push.sequence + 1))
    answer(target, push);
  else
    of(push.worker).held.emplace_back(target, push);
}

void Training::answer(int target, const Settled& push) {
  Outbox* outbox = peers_.outbox(push.worker);
  std::uint64_t& asked = of(push.worker).asked[static_cast<std::size_t>(target)];
  if (outbox == nullptr || asked != push.sequence) return;
  asked = 0;
  if (!is_table(target)) return outbox->add_values(target, push);
  const int table = target - engine_.target_of_table(0);
  outbox->add(RowsDone{table, push.sequence, state_->table(table).version(), push.reason});
}

void Training::rejected(int worker, const std::string& reason, const std::string& advice) {
  peers_.refuse(worker, reason, advice);
}

void Training::updated(int) {
  answer_held();
  pulls_.answer();
  snapshots_.advance();
}

void Training::answer_held() {
  if (state_->spec().policy.mode != Policy::Mode::bounded) return;
  const std::uint64_t slowest = engine_.clocks().slowest();
  if (slowest == slowest_) return;
  slowest_ = slowest;
  for (Worker& worker : workers_)
    std::erase_if(worker.held, [&](const std::pair<int, Settled>& held) {
      if (!engine_.clocks().allows(held.second.sequence + 1)) return false;
      answer(held.first, held.second);
      return true;
    });
}

void Training::answer_ends(StepTally::Answers answers) {
  for (auto& [worker, done] : answers) {
    Outbox* outbox = peers_.outbox(worker);
    if (outbox == nullptr || of(worker).asked_end != done.sequence) continue;
    of(worker).asked_end = 0;
    outbox->add(std::move(done));
  }
}

void Training::end_step(int worker, StepEnd end) {
  if (end.sequence != of(worker).step.sequence || end.sequence == 0)
    throw ProtocolError(fmt::format("worker/{} ends sequence {} in the step of sequence {}", worker,
                                    end.sequence, of(worker).step.sequence));
  if (server_ != 0) end.tally.clear();
  of(worker).asked_end = end.sequence;
  answer_ends(tally_.end(worker, std::move(end)));
}

void Training::pull(int worker, const Pull& pull) { pulls_.pull(worker, pull); }

void Training::pull_rows(int worker, const RowsPull& pull, std::span<const std::byte> keys) {
  check_table(pull.table);
  pulls_.pull_rows(worker, pull, keys);
}

void Training::leave(int worker, Time now) {
  engine_.clocks().left(worker);
  answer_ends(tally_.begin(worker, Clocks::kForever));
  answer_held();
  pulls_.answer();
  snapshots_.advance();
  check_enough(now);
}

Training::Time Training::next_patience() const {
  const Time worker = engine_.clocks().next_give_up(worker_timeout_);
  if (!snapshots_.is_frozen()) return worker;
  return std::min(worker, snapshots_.frozen_since() + worker_timeout_);
}

void Training::run_out_of_patience(Time now) {
  if (snapshots_.is_frozen() && now >= snapshots_.frozen_since() + worker_timeout_)
    peers_.refuse(
        snapshots_.requester(),
        fmt::format("worker/{} has held up the training for {:.1f} s to copy the state",
                    snapshots_.requester(), std::chrono::duration<double>(worker_timeout_).count()),
        "Look for the servers or workers that the copy waits for.");
  for (int worker : engine_.clocks().give_up(now, worker_timeout_))
    log::warning("worker/{} has been away for {:.1f} s: {}", worker,
                 std::chrono::duration<double>(worker_timeout_).count(),
                 rules_.together && engine_.clocks().available() < rules_.required
                     ? "too few workers are left"
                     : "training goes on without it");
  answer_held();
  pulls_.answer();
  snapshots_.advance();
  check_enough(now);
}

// With too few workers left no push would ever be answered: workers that wait are told.
void Training::check_enough(Time now) {
  const Clocks& clocks = engine_.clocks();
  if (!rules_.together || clocks.available() >= rules_.required) return;
  for (int worker = 0; worker < rules_.workers; ++worker) {
    if (peers_.outbox(worker) == nullptr) continue;
    bool waits = tally_.waits(worker);
    for (int target = 0; target < engine_.targets() && !waits; ++target)
      waits = engine_.target(target).has_from(worker);
    if (!waits) continue;
    peers_.refuse(
        worker,
        fmt::format("step {} needs the gradients of {} workers, but only {} can still give one; "
                    "missing: {}",
                    of(worker).step.sequence - 1, rules_.required, clocks.available(),
                    clocks.describe_missing(now)),
        "Start the missing workers again, or train with --replicas_to_aggregate below the number "
        "of workers.");
  }
}

}  // namespace cohort::ps

#include "cohort/train/sync/elastic_sync.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/collective/group.h"
#include "cohort/membership/faults/fault_points.h"
#include "cohort/train/sync/group_evaluation.h"

namespace cohort::train {

namespace {

using membership::FaultPoints;

void reach(std::string_view phase, std::int64_t step) {
  FaultPoints::of_this_process().reach(phase, step);
}

void refuse_what_cannot_change(const SyncedModel& model) {
  if (!model.options.deterministic)
    throw InvalidInput("deterministic must be true in an elastic job, got false",
                       {.advice = "Leave deterministic true, or start the job without --elastic."});
  if (const std::string table = parallel::LocalTables::first_table(model.module); !table.empty())
    throw InvalidInput(
        fmt::format("embedding table '{}' cannot be shared by workers that come and go", table),
        {.advice = "Use --distribution_strategy parameter_server, without --elastic."});
}

}  // namespace

ElasticSync::ElasticSync(parallel::Replica& replica, std::chrono::milliseconds timeout)
    : replica_(replica),
      membership_(*replica.elastic),
      timeout_(timeout),
      ledger_(membership_.role().output),
      last_commit_(std::chrono::steady_clock::now()) {
  FaultPoints::of_this_process().on_cut(
      [&agent = membership_.agent()](std::chrono::milliseconds time) { agent.cut_off(time); });
}

ElasticSync::~ElasticSync() {
  if (transfer_.is_under_way() && membership_.is_member())
    membership_.group().abort("this replica stops");
  FaultPoints::of_this_process().on_cut({});
}

void ElasticSync::begin_view() {
  if (changed_) reach("view", step_);
  replica_.rank = membership_.rank();
  replica_.size = membership_.size();
  replica_.group = &membership_.group();
  parallel::use_devices(*replica_.group, replica_.device, replica_.transport, /*changes=*/true,
                        Deadline::after(timeout_));
  transfer_.begin_view(membership_.group(), view(), membership_.rank());
  inner_.emplace(replica_, timeout_, gradient_blocks_);
  if (model_) attach_inner();
  if (!is_first())
    ledger_.close();
  else if (changed_ && !was_first_ && !is_behind())
    ledger_.open();
}

void ElasticSync::end_view(const std::string& why) {
  if (transfer_.is_under_way()) membership_.group().abort(why.empty() ? "the members change" : why);
  waited_before_ = waited();
  transfer_.end_view();
  give_up_step();
  change_due_ = false;
  inner_.reset();
  if (model_)
    for (torch::Tensor& parameter : model_->module.parameters())
      parameter.mutable_grad() = torch::Tensor();  // in the memory of the group that goes
  was_first_ = is_first();
  changed_ = true;
  reach("report", step_);
}

void ElasticSync::attach(const SyncedModel& model) {
  refuse_what_cannot_change(model);
  if (!inner_)
    throw InvalidInput("the workers of an elastic job meet in fit(), which was not called yet",
                       {.advice = "Call fit() before evaluate() and predict()."});
  model_.emplace(model);
  attach_inner();
}

void ElasticSync::attach_inner() {
  inner_->attach(*model_, runs(), [this](std::size_t bucket) {
    FaultPoints::of_this_process().reach_bucket(static_cast<int>(bucket), step_);
  });
}

// A member that is behind has no shards until it has the state.
std::vector<collective::ShardRange> ElasticSync::runs() const {
  const std::vector<int>& learners = transfer_.learners();
  if (learners.empty()) return {};
  const int able = view().size() - static_cast<int>(learners.size());
  std::vector<collective::ShardRange> runs;
  auto learner = learners.begin();
  int next = 0;
  int number = 0;  // among those that have the state
  for (int rank = 0; rank < view().size(); ++rank) {
    if (learner != learners.end() && *learner == rank) {
      runs.push_back({next, 0});
      ++learner;
    } else {
      runs.push_back(collective::shards_of(number++, able, model_->shards));
    }
    next = runs.back().first + runs.back().count;
  }
  return runs;
}

void ElasticSync::restore_tables(parallel::TableImages images, std::int64_t) {
  parallel::expect_tables(images, {});
}

std::int64_t ElasticSync::begin(std::int64_t step) {
  step_ = step;
  return step;
}

void ElasticSync::begin_ledger(std::int64_t step) {
  ledger_.begin(step, view().number, !final_ && is_first());
}

void ElasticSync::begin_step(const StepInfo& info) {
  step_ = info.step;
  keep_buffers();
  inner_->begin_step(info);
}

void ElasticSync::keep_buffers() {
  buffers_before_.emplace();
  for (const auto& buffer : model_->module.named_buffers())
    buffers_before_->emplace(buffer.key(), buffer.value().detach().clone());
}

// The buffers as they were before the step.
void ElasticSync::give_up_step() {
  if (!buffers_before_) return;
  torch::NoGradGuard no_gradients;
  for (auto& buffer : model_->module.named_buffers())
    buffer.value().copy_(buffers_before_->at(buffer.key()));
  buffers_before_.reset();
  step_lost_ = true;
}

StepResult ElasticSync::finish_step(const StepInfo& info, std::span<const Sums> mine) {
  reach("reduce", info.step);
  bool change = sees_change();
  StepResult result = inner_->reduce_step(info, mine, change);
  reach("apply", info.step);
  place_state();
  if (!final_) membership_.agent().expect_commit(deadline());
  inner_->apply_step(result);
  buffers_before_.reset();
  if (change) change_due_ = true;
  ledger_.append({.epoch = info.epoch,
                  .step = info.step,
                  .first = info.first,
                  .view = view().number,
                  .counts = inner_->shard_samples(),
                  .owners = inner_->shard_owners()});
  reach("applied", info.step);
  return result;
}

bool ElasticSync::sees_change() {
  return !final_ && membership_.agent().planned_change() > view().number;
}

std::chrono::nanoseconds ElasticSync::waited() const {
  return waited_before_ + (inner_ && model_ ? inner_->waited() : std::chrono::nanoseconds(0));
}

nlohmann::json ElasticSync::receive_state() {
  return transfer_.receive({deadline()}, [this] { reach("join", step_); });
}

void ElasticSync::give_state(elastic::TrainingSnapshot snapshot) {
  transfer_.give(std::move(snapshot), {deadline()});
}

void ElasticSync::place_state() {
  if (transfer_.wait() && buffers_before_)
    keep_buffers();  // in a step: those of the state that it begins from
}

void ElasticSync::complete_transfer() {
  if (transfer_.learners().empty()) return;
  place_state();
  end_learning();
}

void ElasticSync::end_learning() {
  transfer_.set_complete();
  attach_inner();
}

void ElasticSync::commit(std::int64_t stage, std::int64_t step, double samples_per_second,
                         bool stepped) {
  const double share =
      static_cast<double>(own_shards().count) / static_cast<double>(model_->shards);
  membership_.agent().committed(stage, step, samples_per_second * share);
  if (!stepped) return;
  if (!transfer_.learners().empty()) end_learning();
  const auto now = std::chrono::steady_clock::now();
  if (changed_ && is_first()) membership_.agent().resumed(step, now - last_commit_, step_lost_);
  changed_ = false;
  step_lost_ = false;
  last_commit_ = now;
}

void ElasticAgreement::agree(const nlohmann::json& values) {
  if (entered_) return;
  membership::ElasticMembership& membership = sync_.membership();
  if (membership.is_member())
    throw InvalidInput("this worker of an elastic job has trained with another Trainer already",
                       {.advice = "Use one Trainer for the whole program."});
  membership.enter(values.dump(), Deadline::never());
  entered_ = true;
}

AgreedRequests ElasticAgreement::agree_on_requests(const CallbackRequests& requests) {
  bool change = sync_.sees_change();
  const AgreedRequests agreed = group_.agree_on_requests(requests, change);
  if (change) sync_.set_change_due();
  return agreed;
}

ElasticReplicaSync make_elastic_sync(const parallel::Replica& replica,
                                     std::chrono::milliseconds timeout) {
  auto sync = std::make_unique<ReplicaSync>(replica);
  auto steps = std::make_unique<ElasticSync>(sync->replica, timeout);
  ElasticSync* elastic = steps.get();
  sync->agreement = std::make_unique<ElasticAgreement>(*elastic, sync->replica, timeout);
  sync->evaluation = std::make_unique<GroupEvaluation>(sync->replica, timeout, nullptr);
  sync->steps = std::move(steps);
  return {std::move(sync), elastic};
}

}  // namespace cohort::train

#include "cohort/train/elastic_exchange.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/collective/group.h"
#include "cohort/membership/faults/fault_points.h"

namespace cohort::train {

namespace {

using Clock = std::chrono::steady_clock;
using membership::FaultPoints;

void reach(std::string_view phase, std::int64_t step) {
  FaultPoints::of_this_process().reach(phase, step);
}

void refuse_what_cannot_change(const Training& training) {
  const TrainerOptions& options = training.options;
  if (!options.deterministic)
    throw InvalidInput("an elastic job trains in the deterministic mode only",
                       {.advice = "Leave deterministic true, or start the job without --elastic."});
  if (const std::string table = parallel::LocalTables::first_table(training.module); !table.empty())
    throw InvalidInput(
        fmt::format("embedding table '{}' cannot be shared by workers that come and go", table),
        {.advice = "Use --distribution_strategy parameter_server, without --elastic."});
}

}  // namespace

ElasticExchange::ElasticExchange(const parallel::Replica& replica,
                                 std::chrono::milliseconds timeout)
    : replica_(replica), seat_(*replica.elastic), timeout_(timeout), last_commit_(Clock::now()) {
  FaultPoints::of_this_process().on_cut(
      [&agent = seat_.agent()](std::chrono::milliseconds time) { agent.cut_off(time); });
}

ElasticExchange::~ElasticExchange() {
  if ((sender_ || receiver_) && seat_.is_member()) seat_.group().abort("this replica stops");
  FaultPoints::of_this_process().on_cut({});
}

bool ElasticExchange::survives(const std::exception& error) const {
  if (over_) return false;
  return dynamic_cast<const PeerError*>(&error) != nullptr ||
         dynamic_cast<const TimeoutError*>(&error) != nullptr ||
         dynamic_cast<const ProtocolError*>(&error) != nullptr ||
         dynamic_cast<const collective::MismatchError*>(&error) != nullptr;
}

parallel::Replica ElasticExchange::replica() const {
  parallel::Replica now = replica_;
  now.rank = seat_.rank();
  now.size = seat_.size();
  now.group = &seat_.group();
  return now;
}

void ElasticExchange::agree(const nlohmann::json& values) {
  if (entered_) return;
  if (seat_.is_member())
    throw InvalidInput("this worker of an elastic job has trained with another Trainer already",
                       {.advice = "Use one Trainer for the whole program."});
  seat_.enter(values.dump(), Deadline::never());
  entered_ = true;
  make_inner();
}

std::string ElasticExchange::text_of_first(const std::function<std::string()>& make) {
  return inner_->text_of_first(make);
}

void ElasticExchange::make_inner() {
  learners_ = view().behind();
  inner_.emplace(replica(), timeout_, gradient_blocks_);
  if (training_) attach_inner();
}

void ElasticExchange::attach(const Training& training) {
  refuse_what_cannot_change(training);
  if (!entered_)
    throw InvalidInput("the workers of an elastic job meet in fit(), which was not called yet",
                       {.advice = "Call fit() before evaluate() and predict()."});
  training_.emplace(training);
  attach_inner();
}

void ElasticExchange::attach_inner() {
  inner_->attach(*training_, runs(), [this](std::size_t bucket) {
    FaultPoints::of_this_process().reach_bucket(static_cast<int>(bucket), step_);
  });
}

// Whoever is behind has no shards until it has the state.
std::vector<collective::ShardRange> ElasticExchange::runs() const {
  if (learners_.empty()) return {};
  const int able = view().size() - static_cast<int>(learners_.size());
  std::vector<collective::ShardRange> runs;
  auto learner = learners_.begin();
  int next = 0;
  int place = 0;
  for (int rank = 0; rank < view().size(); ++rank) {
    if (learner != learners_.end() && *learner == rank) {
      runs.push_back({next, 0});
      ++learner;
    } else {
      runs.push_back(collective::shards_of(place++, able, training_->shards));
    }
    next = runs.back().first + runs.back().count;
  }
  return runs;
}

void ElasticExchange::restore_tables(parallel::TableImages images, std::int64_t) {
  parallel::expect_tables(images, {});
}

std::int64_t ElasticExchange::begin(std::int64_t step) {
  step_ = step;
  return step;
}

void ElasticExchange::begin_ledger(std::int64_t step) {
  last_record_.reset();
  ledger_.reset();
  if (over_ || seat_.rank() != 0) return;
  open_ledger();
  if (!ledger_ || !ledger_->last_step()) return;
  // Another launcher counts views from 1 again.
  if (*ledger_->last_step() >= step || ledger_->last_view() > view().number) ledger_->rewind(step);
}

void ElasticExchange::begin_step(const StepPlace& place) {
  step_ = place.step;
  keep_buffers();
  inner_->begin_step(place);
}

void ElasticExchange::keep_buffers() {
  buffers_before_.emplace();
  for (const auto& buffer : training_->module.named_buffers())
    buffers_before_->emplace(buffer.key(), buffer.value().detach().clone());
}

// The buffers as they were before the step that is given up.
void ElasticExchange::forget_step() {
  if (!buffers_before_) return;
  torch::NoGradGuard no_gradients;
  for (auto& buffer : training_->module.named_buffers())
    buffer.value().copy_(buffers_before_->at(buffer.key()));
  buffers_before_.reset();
  step_lost_ = true;
}

Sums ElasticExchange::finish_step(const StepPlace& place, std::span<const Sums> mine) {
  reach("reduce", place.step);
  Sums sums = inner_->reduce_step(mine);
  reach("apply", place.step);
  if (sender_) {
    sender_->wait();
    sender_.reset();
  }
  place_state();
  if (!over_) seat_.agent().expect_commit(deadline());
  inner_->apply_step();
  buffers_before_.reset();
  record(place);
  reach("applied", place.step);
  return sums;
}

Exchange::Agreed ElasticExchange::follow(const Wishes& wishes) {
  const std::uint64_t planned = inner_->follow_change(wishes, seat_.agent().planned_change());
  change_due_ = !over_ && planned > view().number;
  return inner_->agreed();
}

std::chrono::nanoseconds ElasticExchange::waited() const {
  return waited_before_ + (inner_ && training_ ? inner_->waited() : std::chrono::nanoseconds(0));
}

void ElasticExchange::change(std::int64_t stage, const std::string& why) {
  if (sender_ || receiver_) seat_.group().abort(why.empty() ? "the members change" : why);
  waited_before_ = waited();
  sender_.reset();
  receiver_.reset();
  place_ = {};
  forget_step();
  change_due_ = false;
  inner_.reset();
  if (training_)
    for (torch::Tensor& parameter : training_->module.parameters())
      parameter.mutable_grad() = torch::Tensor();  // in the memory of the group that goes
  reach("report", step_);
  const bool was_first = seat_.rank() == 0;
  seat_.change(stage, why, Deadline::never());
  reach("view", step_);
  changed_ = Clock::now();
  make_inner();
  if (seat_.rank() != 0)
    ledger_.reset();
  else if (!was_first && !is_behind())
    open_ledger();
}

nlohmann::json ElasticExchange::receive() {
  receiver_.emplace(seat_.group(), view().donor(), deadline(), [this] { reach("join", step_); });
  return receiver_->image();
}

void ElasticExchange::give(const nlohmann::json& image, NamedTensors tensors) {
  sender_.emplace(seat_.group(), learners_, image, std::move(tensors), deadline());
}

void ElasticExchange::place_state() {
  if (!receiver_) return;
  NamedTensors tensors = receiver_->take();
  receiver_.reset();
  std::exchange(place_, {})(std::move(tensors));
  if (buffers_before_) keep_buffers();  // in a step: those of the state that it begins from
}

void ElasticExchange::complete_transfer() {
  if (learners_.empty()) return;
  if (sender_) sender_->wait();
  place_state();
  end_learning();
}

void ElasticExchange::end_learning() {
  sender_.reset();
  learners_.clear();
  attach_inner();
}

void ElasticExchange::commit(std::int64_t stage, std::int64_t step, double samples_per_second,
                             bool stepped) {
  const double share =
      static_cast<double>(own_shards().count) / static_cast<double>(training_->shards);
  seat_.agent().committed(stage, step, samples_per_second * share);
  if (!stepped) return;
  if (!learners_.empty()) end_learning();
  const Clock::time_point now = Clock::now();
  if (changed_ && seat_.rank() == 0) seat_.agent().resumed(step, now - last_commit_, step_lost_);
  changed_.reset();
  step_lost_ = false;
  last_commit_ = now;
}

bool ElasticExchange::finish(std::int64_t stage) {
  complete_transfer();
  if (ledger_) ledger_->sync();
  if (!over_) over_ = seat_.agent().finish(stage, Deadline::never());
  return over_;
}

void ElasticExchange::open_ledger() {
  if (!ledger_plan_ || seat_.role().output.empty()) return;
  ledger_.emplace(std::filesystem::path(seat_.role().output) / "ledger", *ledger_plan_);
  if (last_record_ && ledger_->lacks(*last_record_)) ledger_->append(*last_record_);
}

void ElasticExchange::record(const StepPlace& place) {
  membership::LedgerRecord record{.epoch = place.epoch,
                                  .step = place.step,
                                  .first = place.first,
                                  .view = view().number,
                                  .counts = inner_->shard_samples(),
                                  .owners = inner_->shard_owners()};
  last_record_ = std::move(record);
  if (ledger_) ledger_->append(*last_record_);
}

nlohmann::json ElasticExchange::last_record() const {
  if (!last_record_) return nullptr;
  return {{"epoch", last_record_->epoch},   {"step", last_record_->step},
          {"first", last_record_->first},   {"view", last_record_->view},
          {"counts", last_record_->counts}, {"owners", last_record_->owners}};
}

void ElasticExchange::set_last_record(const nlohmann::json& record) {
  last_record_.reset();
  if (record.is_null()) return;
  last_record_.emplace();
  record.at("epoch").get_to(last_record_->epoch);
  record.at("step").get_to(last_record_->step);
  record.at("first").get_to(last_record_->first);
  record.at("view").get_to(last_record_->view);
  record.at("counts").get_to(last_record_->counts);
  record.at("owners").get_to(last_record_->owners);
  // Before this replica takes part in another step: nobody keeps more than the last record.
  if (seat_.rank() == 0) open_ledger();
}

}  // namespace cohort::train

#include "cohort/train/sync/step_ledger.h"

#include <nlohmann/json.hpp>

namespace cohort::train {

void StepLedger::begin(std::int64_t step, std::uint64_t view, bool writes) {
  last_.reset();
  writer_.reset();
  if (!writes) return;
  open();
  if (!writer_ || !writer_->last_step()) return;
  // Another launcher counts views from 1 again.
  if (*writer_->last_step() >= step || writer_->last_view() > view) writer_->rewind(step);
}

void StepLedger::close() { writer_.reset(); }

void StepLedger::open() {
  if (!plan_ || output_.empty()) return;
  writer_.emplace(output_ / "ledger", *plan_);
  if (last_ && writer_->lacks(*last_)) writer_->append(*last_);
}

void StepLedger::append(membership::LedgerRecord record) {
  last_ = std::move(record);
  if (writer_) writer_->append(*last_);
}

void StepLedger::sync() {
  if (writer_) writer_->sync();
}

nlohmann::json StepLedger::last_record() const {
  if (!last_) return nullptr;
  return {{"epoch", last_->epoch}, {"step", last_->step},     {"first", last_->first},
          {"view", last_->view},   {"counts", last_->counts}, {"owners", last_->owners}};
}

void StepLedger::set_last_record(const nlohmann::json& record, bool writes) {
  last_.reset();
  if (record.is_null()) return;
  last_.emplace();
  record.at("epoch").get_to(last_->epoch);
  record.at("step").get_to(last_->step);
  record.at("first").get_to(last_->first);
  record.at("view").get_to(last_->view);
  record.at("counts").get_to(last_->counts);
  record.at("owners").get_to(last_->owners);
  // Before this replica takes part in another step: no replica keeps more than the last record.
  if (writes) open();
}

}  // namespace cohort::train

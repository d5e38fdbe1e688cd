#include "cohort/train/callbacks/scheduler.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/train/options/checks.h"

namespace cohort::train {
namespace {

constexpr std::size_t kKept = 64;  // an event that comes again is at most a stage back

std::vector<double> rates_in(const torch::optim::Optimizer& optimizer) {
  std::vector<double> rates;
  for (const auto& group : optimizer.param_groups()) rates.push_back(group.options().get_lr());
  return rates;
}

void put_rates(torch::optim::Optimizer& optimizer, const std::vector<double>& rates) {
  auto& groups = optimizer.param_groups();
  for (std::size_t i = 0; i < groups.size() && i < rates.size(); ++i)
    groups[i].options().set_lr(rates[i]);
}

}  // namespace

Scheduler::Scheduler(std::shared_ptr<torch::optim::LRScheduler> scheduler, Every every)
    : scheduler_(std::move(scheduler)), every_(every) {
  expect(scheduler_ != nullptr, "Scheduler has no scheduler",
         "Give std::make_shared<torch::optim::StepLR>(*optimizer, ...).");
}

Scheduler::Scheduler(Make make, Every every) : make_(std::move(make)), every_(every) {
  expect(make_ != nullptr, "Scheduler has no function that makes one",
         "Give [](torch::optim::Optimizer& optimizer) { return ...; }.");
}

void Scheduler::on_step_end(FitState& fit) {
  if (every_ == Every::step) update(fit);
}

void Scheduler::update(FitState& fit) {
  torch::optim::Optimizer& optimizer = fit.optimizer();
  if (!scheduler_) {
    scheduler_ = make_(optimizer);
    expect(scheduler_ != nullptr, "the function of Scheduler made none",
           "Return std::make_shared<torch::optim::StepLR>(optimizer, ...).");
  }
  if (first_.empty()) {
    first_ = fit.learning_rate().base_rates();
    first_.resize(
        optimizer.param_groups().size());  // of the first optimizer, where there are several
    past_.push_back(first_);
  }
  const Rates& rates = rates_after(every_ == Every::step ? fit.step : fit.epoch, optimizer);
  Rates factors;
  for (std::size_t i = 0; i < first_.size(); ++i) {
    factors.push_back(first_[i] == 0 ? 1 : rates[i] / first_[i]);
    expect(factors.back() >= 0 && std::isfinite(factors.back()),
           fmt::format("the scheduler gives parameter group {} the rate {}", i, rates[i]),
           "A rate is finite, and 0 or more.");
  }
  fit.learning_rate().set_factors("scheduler", factors);
}

const Scheduler::Rates& Scheduler::rates_after(std::int64_t count,
                                               torch::optim::Optimizer& optimizer) {
  if (count < count_) {
    const auto back = static_cast<std::size_t>(count_ - count);
    expect(back < past_.size(),
           fmt::format("the scheduler has made {} steps, training stands at {}", count_, count),
           "Make a new one for a training that begins again.");
    return past_[past_.size() - 1 - back];
  }
  const Rates in_use = rates_in(optimizer);
  while (count_ < count) {
    put_rates(optimizer, past_.back());
    scheduler_->step();
    past_.push_back(rates_in(optimizer));
    if (past_.size() > kKept) past_.pop_front();
    ++count_;
  }
  put_rates(optimizer, in_use);
  return past_.back();
}

}  // namespace cohort::train

#include "cohort/train/elastic/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "cohort/base/error.h"
#include "cohort/train/elastic/snapshot_transfer.h"

namespace cohort::elastic {

namespace {

constexpr auto kLeasePatience = std::chrono::minutes(5);

[[noreturn]] void interrupt() {
  throw MembersChange("the workers of this job are about to change",
                      {.advice = "Let this error pass: elastic::run() handles it."});
}

}  // namespace

void State::add(std::unique_ptr<Part> part) {
  const std::string& name = part->name();
  if (name.empty() || name.find('.') != std::string::npos)
    throw InvalidInput(fmt::format("elastic::State: nothing can be called '{}'", name),
                       {.advice = "Give it a name without a dot."});
  if (std::ranges::any_of(parts_, [&](const auto& other) { return other->name() == name; }))
    throw InvalidInput(fmt::format("elastic::State: there is a '{}' already", name),
                       {.advice = "Give each thing a name of its own."});
  parts_.push_back(std::move(part));
}

void State::register_module(const std::string& name, torch::nn::Module& module) {
  add(make_module_part(name, module));
}
void State::register_optimizer(const std::string& name, torch::optim::Optimizer& optimizer) {
  add(make_optimizer_part(name, optimizer));
}
void State::register_tensor(const std::string& name, const torch::Tensor& tensor) {
  add(make_tensor_part(name, tensor));
}
void State::register_sampler(const std::string& name, train::ElasticSampler& sampler) {
  add(make_sampler_part(name, sampler));
}
void State::register_reset_callbacks(std::vector<std::function<void()>> callbacks) {
  for (auto& callback : callbacks) reset_callbacks_.push_back(std::move(callback));
}

TrainingSnapshot State::capture() const {
  TrainingSnapshot live;
  for (const auto& part : parts_) part->capture(live);
  return live;
}

nlohmann::json State::agreement() const {
  nlohmann::json parts = nlohmann::json::object();
  for (const auto& part : parts_) parts[part->name()] = part->description();
  return {{"elastic_state", std::move(parts)}};
}

void State::save() {
  copy_to_host(capture(), saved_);
  has_saved_ = true;
  commits_ = std::max<std::int64_t>(commits_, 0) + 1;
}

bool State::change_is_due(const collective::CallOptions& options) const {
  const auto planned = members_ ? members_->planned_change() : std::nullopt;
  if (!planned) return false;
  auto number = static_cast<std::int64_t>(*planned);
  members_->group().all_reduce(std::span(&number, 1),
                               {.op = collective::ReduceOp::maximum, .deadline = options.deadline});
  return number > 0;
}

void State::commit(collective::CallOptions options) {
  // A worker that was shut out saves too, which does no harm: it is told at once, and copies from
  // the others when it comes again. One that was not has gained a step.
  save();
  if (!members_) return;
  members_->expect_commit(options.deadline.value_or(Deadline::after(kLeasePatience)));
  members_->committed(commits_);
  if (change_is_due(options)) interrupt();
}

void State::check_host_updates(collective::CallOptions options) {
  if (!change_is_due(options)) return;
  save();
  interrupt();
}

void State::restore() {
  if (!has_saved_) return;
  for (const auto& part : parts_) part->restore(saved_);
}

void State::sync(collective::CallOptions options) {
  TrainingSnapshot live = capture();
  if (members_) {
    collective::Group& group = members_->group();
    const std::array<std::int64_t, 2> mine{commits_, checksum(live)};
    std::vector<std::array<std::int64_t, 2>> all(static_cast<std::size_t>(group.size()));
    group.all_gather(mine.data(), all.data(), mine.size(), collective::DataType::i64, options);
    const auto donor =
        std::ranges::max_element(all, [](const auto& a, const auto& b) { return a[0] < b[0]; });
    const int giver = static_cast<int>(donor - all.begin());
    std::vector<int> others;  // that have something else
    for (int rank = 0; rank < group.size(); ++rank)
      if (all[static_cast<std::size_t>(rank)] != *donor) others.push_back(rank);
    if (group.rank() == giver && !others.empty()) {
      SnapshotSender(group, others, live, options).wait();
    } else if (std::ranges::find(others, group.rank()) != others.end()) {
      SnapshotReceiver receiver(group, giver, options);
      live = {receiver.values(), receiver.take()};
      for (const auto& part : parts_) part->restore(live);
    }
    commits_ = (*donor)[0];
    for (const auto& part : parts_) part->set_members(group.rank(), group.size());
  }
  copy_to_host(live, saved_);
  has_saved_ = true;
  commits_ = std::max<std::int64_t>(commits_, 0);
}

void State::members_changed() {
  for (const auto& callback : reset_callbacks_) callback();
}

}  // namespace cohort::elastic

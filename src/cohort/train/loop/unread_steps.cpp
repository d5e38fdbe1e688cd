#include "cohort/train/loop/unread_steps.h"

#include <span>
#include <utility>

#include "cohort/parallel/cuda/stream_scope.h"
#include "cohort/parallel/cuda/wait_for_device.h"

namespace cohort::train {

std::vector<UnreadSteps::ReadStep> UnreadSteps::add(Step step) {
  steps_.push_back(std::move(step));
  if (static_cast<std::int64_t>(steps_.size()) < window_) return {};
  Window before = std::exchange(copied_, {});
  copy();
  return read(std::move(before));
}

std::vector<UnreadSteps::ReadStep> UnreadSteps::read_all() {
  std::vector<ReadStep> all = read(std::exchange(copied_, {}));
  copy();
  for (ReadStep& step : read(std::exchange(copied_, {}))) all.push_back(std::move(step));
  return all;
}

void UnreadSteps::copy() {
  copied_.steps = std::exchange(steps_, {});
  std::vector<torch::Tensor> rows;
  for (const Step& step : copied_.steps)
    for (const Measured& measured : step.measured)
      if (measured.row.defined()) rows.push_back(measured.row);
  if (rows.empty()) return;
  const torch::Tensor numbers = torch::cat(rows);
  if (numbers.is_cpu()) {
    copied_.numbers = numbers;
    return;
  }
  copied_.numbers = torch::empty({numbers.numel()},
                                 torch::TensorOptions().dtype(torch::kFloat64).pinned_memory(true));
  copied_.numbers.copy_(numbers, /*non_blocking=*/true);
  copied_.copied.emplace(device_.type());
  copied_.copied->record(parallel::thread_stream(device_));
}

std::vector<UnreadSteps::ReadStep> UnreadSteps::read(Window window) const {
  if (window.copied) parallel::wait_for_event(*window.copied, group_, Deadline::after(timeout_));
  std::vector<ReadStep> result;
  std::span<const double> left;
  if (window.numbers.defined())
    left = {window.numbers.data_ptr<double>(), static_cast<std::size_t>(window.numbers.numel())};
  for (const Step& step : window.steps) {
    ReadStep& read = result.emplace_back();
    read.info = step.info;
    read.gradient_factor = step.gradient_factor;
    for (const Measured& measured : step.measured) {
      const auto numbers = left.first(measured.row_size());
      left = left.subspan(numbers.size());
      for (Sums& sums : measured.read(numbers)) read.sums.push_back(std::move(sums));
      if (measured.has_norm) read.gradient_norm = numbers.back();
    }
  }
  return result;
}

}  // namespace cohort::train

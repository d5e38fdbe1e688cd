#include "cohort/train/data/any_batch.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::train {
namespace {

std::set<std::int64_t> row_counts(const std::vector<torch::Tensor>& tensors) {
  std::set<std::int64_t> counts;
  for (const torch::Tensor& tensor : tensors)
    if (tensor.dim() > 0) counts.insert(tensor.size(0));
  return counts;
}

std::string counts_text(const std::set<std::int64_t>& counts) {
  std::vector<std::string> words;
  for (const std::int64_t count : counts) words.push_back(std::to_string(count));
  return words.empty() ? "no" : join(words, " and ");
}

}  // namespace

std::string type_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? name.get() : type.name();
}

void AnyBatch::check_type(const std::type_info& wanted) const {
  if (content_ && content_->type() == wanted) return;
  throw InvalidInput(
      fmt::format("the data set gives batches of type {}, and {} was asked for",
                  content_ ? type_name(content_->type()) : "nothing", type_name(wanted)),
      {.advice = "Let the training step take the batch that the data set gives, or derive the data "
                 "set from cohort::DatasetOf with the step's batch."});
}

std::vector<torch::Tensor> AnyBatch::tensors() const {
  std::vector<torch::Tensor> tensors;
  if (content_) content_->each([&](const torch::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

std::optional<std::vector<std::string>> AnyBatch::arrangement() const {
  return content_ ? content_->arrangement() : std::vector<std::string>();
}

std::int64_t AnyBatch::size() const {
  const std::set<std::int64_t> counts = row_counts(tensors());
  if (counts.size() > 1)
    throw InvalidInput(
        fmt::format("a batch has tensors of {} rows", counts_text(counts)),
        {.advice = "Give every tensor of a batch one row a sample, or no dimension at all."});
  return counts.empty() ? 0 : *counts.begin();
}

AnyBatch AnyBatch::map(const Change& change) const {
  AnyBatch batch;
  if (content_) batch.content_ = content_->map(change);
  return batch;
}

AnyBatch AnyBatch::to(torch::Device device) const {
  const std::vector<torch::Tensor> all = tensors();
  if (std::all_of(all.begin(), all.end(),
                  [&](const torch::Tensor& tensor) { return tensor.device() == device; }))
    return *this;
  return map([&](const torch::Tensor& tensor) {
    const bool from_pinned = device.is_cuda() && tensor.device().is_cpu() && tensor.is_pinned();
    return tensor.to(device, /*non_blocking=*/from_pinned);
  });
}

AnyBatch AnyBatch::clone() const {
  return map([](const torch::Tensor& tensor) { return tensor.clone(); });
}

void AnyBatch::copy_from(const AnyBatch& other) {
  const torch::NoGradGuard no_gradients;
  std::vector<torch::Tensor> to = tensors();
  const std::vector<torch::Tensor> from = other.tensors();
  COHORT_CHECK(to.size() == from.size(), "{} tensors for a batch of {}", from.size(), to.size());
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i], /*non_blocking=*/true);
}

AnyBatch AnyBatch::pin_memory() const {
  return map([](const torch::Tensor& tensor) {
    return tensor.device().is_cpu() ? tensor.pin_memory() : tensor;
  });
}

AnyBatch AnyBatch::narrow(std::int64_t first, std::int64_t count) const {
  return map([&](const torch::Tensor& tensor) {
    return tensor.dim() > 0 ? tensor.narrow(0, first, count) : tensor;
  });
}

void check_rows(const AnyBatch& batch, std::int64_t asked) {
  const std::set<std::int64_t> counts = row_counts(batch.tensors());
  const bool none = counts.empty() && asked == 0;
  if (none || (counts.size() == 1 && *counts.begin() == asked)) return;
  throw InvalidInput(
      fmt::format("the data set was asked for {} samples and gave tensors of {} rows", asked,
                  counts_text(counts)),
      {.advice = "Return one row an index, in the order of the indices."});
}

}  // namespace cohort::train

#include "cohort/train/data/token_windows.h"

#include <algorithm>

#include "cohort/base/error.h"

namespace cohort::train {

TokenWindows::TokenWindows(std::vector<std::shared_ptr<const TokenStore>> rows,
                           std::int64_t sequence, std::int64_t stride, std::int64_t vocabulary)
    : rows_(std::move(rows)), sequence_(sequence), stride_(stride), vocabulary_(vocabulary) {
  if (sequence < 1 || stride < 1 || vocabulary < 0)
    throw InvalidInput(
        fmt::format("TokenDataset: sequence and stride must be at least 1 and vocabulary 0 or "
                    "more, got {}, {} and {}",
                    sequence, stride, vocabulary));
  std::int64_t windows = 0;
  for (const auto& row : rows_) {
    if (row->size() > sequence) windows += (row->size() - sequence - 1) / stride + 1;
    ends_.push_back(windows);
  }
  if (windows == 0)
    throw InvalidInput(
        fmt::format("TokenDataset: {} has {} tokens, a sample of sequence {} takes {}",
                    rows_.empty() ? "no file" : rows_.front()->name(), tokens(), sequence,
                    sequence + 1),
        {.advice = "Give more text, or a smaller sequence."});
}

std::int64_t TokenWindows::tokens() const {
  std::int64_t count = 0;
  for (const auto& row : rows_) count += row->size();
  return count;
}

void TokenWindows::read(std::int64_t index, std::span<std::int64_t> data,
                        std::span<std::int64_t> target) const {
  const auto length = static_cast<std::size_t>(sequence_);
  COHORT_CHECK(index >= 0 && index < size() && data.size() == length && target.size() == length,
               "window {} of {}", index, size());
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), index);
  const auto row = static_cast<std::size_t>(end - ends_.begin());
  const std::int64_t first = (index - (row == 0 ? 0 : ends_[row - 1])) * stride_;
  rows_[row]->read(first, data);
  std::copy(data.begin() + 1, data.end(), target.begin());
  rows_[row]->read(first + sequence_, target.last(1));
  if (vocabulary_ == 0) return;
  for (std::size_t i = 0; i <= length; ++i) {
    const std::int64_t token = i < length ? data[i] : target.back();
    if (token < 0 || token >= vocabulary_)
      throw InvalidInput(
          fmt::format("{}: token {} at position {} is not of a vocabulary of {}",
                      rows_[row]->name(), token, first + static_cast<std::int64_t>(i), vocabulary_),
          {.advice = "Give the model the vocabulary of the tokenizer that made the "
                     "file, and TokenDatasetOptions the file's type."});
  }
}

}  // namespace cohort::train

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cohort/train/data/token_file.h"

namespace cohort::train {

// Rows of tokens cut into windows of `sequence` + 1 tokens, one every `stride` tokens, none across
// the end of a row. Immutable, thread-safe to read.
class TokenWindows {
 public:
  // `vocabulary`: tokens are 0 to vocabulary - 1, checked when they are read; 0: any. InvalidInput
  // for numbers that cannot be, and where no row is long enough for a window.
  TokenWindows(std::vector<std::shared_ptr<const TokenStore>> rows, std::int64_t sequence,
               std::int64_t stride, std::int64_t vocabulary);

  std::int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  std::int64_t sequence() const { return sequence_; }
  std::int64_t tokens() const;  // of all rows

  // The first `sequence` tokens of window `index` to `data`, the last `sequence` to `target`.
  // InvalidInput names a token that is not of the vocabulary and where it stands.
  void read(std::int64_t index, std::span<std::int64_t> data, std::span<std::int64_t> target) const;

 private:
  std::vector<std::shared_ptr<const TokenStore>> rows_;
  std::vector<std::int64_t> ends_;  // windows of this row and those before it
  std::int64_t sequence_;
  std::int64_t stride_;
  std::int64_t vocabulary_;
};

}  // namespace cohort::train

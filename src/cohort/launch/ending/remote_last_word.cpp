#include "cohort/launch/ending/remote_last_word.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cohort/base/crypto/hmac.h"

namespace cohort::launch {
namespace {

// A byte that text hardly has, so that hardly anything is ever held back.
std::string announced(std::string_view mark) { return fmt::format("\x1e{} ", mark); }

}  // namespace

std::string new_last_word_mark() {
  std::uint64_t numbers[2];
  fill_random(numbers, sizeof numbers);
  return fmt::format("{:016x}{:016x}", numbers[0], numbers[1]);
}

std::string frame_last_word(std::string_view mark, const LastWord& word) {
  return announced(mark) + encode_last_word(word);
}

LastWordFilter::LastWordFilter(std::string_view mark) : mark_(announced(mark)) {}

std::string LastWordFilter::feed(std::string_view bytes) {
  std::string output;
  if (!found_) {
    held_ += bytes;
    bytes = {};
    const std::size_t start = held_.find(mark_);
    if (start != std::string::npos) {
      found_ = true;
      output = held_.substr(0, start);
      word_ = held_.substr(start + mark_.size());
      held_.clear();
    } else {
      // Whatever may be the beginning of the mark waits.
      std::size_t kept = std::min(held_.size(), mark_.size() - 1);
      while (kept > 0 && !mark_.starts_with(std::string_view(held_).substr(held_.size() - kept)))
        --kept;
      output = held_.substr(0, held_.size() - kept);
      held_.erase(0, held_.size() - kept);
    }
  }
  word_ += bytes;
  word_.resize(std::min(word_.size(), kLastWordBytes));
  return output;
}

std::string LastWordFilter::finish() { return std::exchange(held_, {}); }

}  // namespace cohort::launch

#include "cohort/train/text/byte_pair_tokenizer.h"

#include <queue>
#include <unordered_map>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/train/text/gpt2_words.h"

namespace cohort::train {
namespace {

// Longer words are seldom met again, and more of them would take memory without end.
constexpr std::size_t kMostRememberedBytes = 32;
constexpr std::size_t kMostRememberedWords = 1 << 16;

BytePairs read_byte_pairs(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(path)) return parse_tokenizer_json(read_file(path), path.string());
  if (fs::exists(path / "vocab.json") && fs::exists(path / "merges.txt"))
    return parse_gpt2_files(read_file(path / "vocab.json"), read_file(path / "merges.txt"),
                            path.string());
  if (fs::exists(path / "tokenizer.json"))
    return parse_tokenizer_json(read_file(path / "tokenizer.json"),
                                (path / "tokenizer.json").string());
  throw InvalidInput(
      fmt::format("'{}' has no vocab.json with a merges.txt, and no tokenizer.json", path.string()),
      {.advice = "Give the folder of a byte-pair tokenizer."});
}

// One word: its bytes as a linked list of tokens, of which the neighbours with the smallest rank
// are made one, the leftmost first, until none can be.
class WordMerger {
 public:
  WordMerger(const BytePairs& pairs, std::string_view word) : pairs_(pairs) {
    for (std::size_t i = 0; i < word.size(); ++i)
      parts_.push_back({.token = pairs.bytes[static_cast<unsigned char>(word[i])],
                        .previous = static_cast<std::int64_t>(i) - 1,
                        .next = i + 1 < word.size() ? static_cast<std::int64_t>(i) + 1 : -1});
    for (std::size_t i = 0; i + 1 < parts_.size(); ++i) consider(static_cast<std::int64_t>(i));
  }

  void append_to(std::vector<std::int64_t>& out) {
    while (!candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      if (still_there(best)) merge(best);
    }
    for (std::int64_t at = parts_.empty() ? -1 : 0; at >= 0; at = part(at).next)
      out.push_back(part(at).token);
  }

 private:
  struct Part {
    std::uint32_t token = 0;
    std::int64_t previous = -1, next = -1;  // -1: none
    bool is_gone = false;
  };
  struct Candidate {
    std::uint32_t rank = 0;
    std::int64_t left = 0;
    std::uint64_t pair = 0;
    std::uint32_t merged = 0;
    bool operator<(const Candidate& other) const {  // a priority_queue gives the largest first
      return std::pair(rank, left) > std::pair(other.rank, other.left);
    }
  };

  Part& part(std::int64_t at) { return parts_[static_cast<std::size_t>(at)]; }
  std::uint64_t pair_at(std::int64_t left) {
    return BytePairs::pair(part(left).token, part(part(left).next).token);
  }

  void consider(std::int64_t left) {
    if (left < 0 || part(left).next < 0) return;
    const auto found = pairs_.merges.find(pair_at(left));
    if (found != pairs_.merges.end())
      candidates_.push({found->second.rank, left, found->first, found->second.token});
  }

  bool still_there(const Candidate& candidate) {
    const Part& left = part(candidate.left);
    return !left.is_gone && left.next >= 0 && pair_at(candidate.left) == candidate.pair;
  }

  void merge(const Candidate& candidate) {
    Part& left = part(candidate.left);
    Part& right = part(left.next);
    right.is_gone = true;
    left.token = candidate.merged;
    left.next = right.next;
    if (left.next >= 0) part(left.next).previous = candidate.left;
    consider(left.previous);
    consider(candidate.left);
  }

  const BytePairs& pairs_;
  std::vector<Part> parts_;
  std::priority_queue<Candidate> candidates_;
};

}  // namespace

class BytePairTokenizer::Words {
 public:
  explicit Words(const BytePairs& pairs) : pairs_(pairs) {}

  void append(std::string_view word, std::vector<std::int64_t>& out) {
    if (word.size() > kMostRememberedBytes) return WordMerger(pairs_, word).append_to(out);
    auto found = known_.find(word);
    if (found == known_.end()) {
      if (known_.size() >= kMostRememberedWords) known_.clear();
      found = known_.emplace(word, std::vector<std::int64_t>()).first;
      WordMerger(pairs_, word).append_to(found->second);
    }
    out.insert(out.end(), found->second.begin(), found->second.end());
  }

 private:
  const BytePairs& pairs_;
  std::unordered_map<std::string_view, std::vector<std::int64_t>> known_;  // words of the text
};

BytePairTokenizer::BytePairTokenizer(const std::filesystem::path& path)
    : BytePairTokenizer(read_byte_pairs(path)) {}

BytePairTokenizer::BytePairTokenizer(const std::filesystem::path& vocab,
                                     const std::filesystem::path& merges)
    : BytePairTokenizer(parse_gpt2_files(read_file(vocab), read_file(merges), vocab.string())) {}

BytePairTokenizer::BytePairTokenizer(BytePairs pairs) : pairs_(std::move(pairs)) {
  for (const auto& [text, token] : pairs_.added)
    begins_added_[static_cast<unsigned char>(text.front())] = true;
}

// The longest added token at the front of `text`, and its length.
std::optional<std::pair<std::size_t, std::uint32_t>> BytePairTokenizer::added_at(
    std::string_view text) const {
  std::optional<std::pair<std::size_t, std::uint32_t>> longest;
  for (const auto& [added, token] : pairs_.added)
    if (text.starts_with(added) && (!longest || added.size() > longest->first))
      longest = {added.size(), token};
  return longest;
}

std::string_view BytePairTokenizer::until_added(std::string_view text) const {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (begins_added_[static_cast<unsigned char>(text[i])] && added_at(text.substr(i)))
      return text.substr(0, i);
  return text;
}

std::vector<std::int64_t> BytePairTokenizer::encode(std::string_view text) const {
  std::vector<std::int64_t> tokens;
  Words words(pairs_);
  while (!text.empty()) {
    std::string_view plain = until_added(text);
    text.remove_prefix(plain.size());
    while (!plain.empty()) {
      const std::size_t length = first_gpt2_word(plain);
      words.append(plain.substr(0, length), tokens);
      plain.remove_prefix(length);
    }
    if (const auto added = added_at(text)) {
      tokens.push_back(added->second);
      text.remove_prefix(added->first);
    }
  }
  return tokens;
}

std::string BytePairTokenizer::decode(std::span<const std::int64_t> tokens) const {
  std::string text;
  for (const std::int64_t token : tokens) {
    if (token < 0 || token >= vocabulary() ||
        pairs_.tokens[static_cast<std::size_t>(token)].empty())
      throw InvalidInput(
          fmt::format("token {} is not of this vocabulary of {}", token, vocabulary()),
          {.advice = "Decode with the tokenizer that encoded."});
    text += pairs_.tokens[static_cast<std::size_t>(token)];
  }
  return text;
}

std::optional<std::int64_t> BytePairTokenizer::token(std::string_view added) const {
  const auto found = pairs_.added.find(std::string(added));
  if (found == pairs_.added.end()) return std::nullopt;
  return found->second;
}

}  // namespace cohort::train

#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/train/text/byte_pair_files.h"
#include "cohort/train/text/tokenizer.h"

namespace cohort::train {

// GPT-2's tokens, and those of any vocabulary of the same kind: the same numbers as HuggingFace's
// `tokenizers` gives (without its post-processing, which may add tokens around a text).
//
//   cohort::BytePairTokenizer tokenizer("gpt2");  // a folder with vocab.json and merges.txt
//   tokenizer.encode("Hello world");              // {15496, 995}
//
// An added token (<|endoftext|>) in a text becomes that token; of several that begin at the same
// place the longest. encode() takes time n log n in the longest word.
// Thread-safe: all methods are const. Failure: InvalidInput for files that cannot be used, and for
// a number that is no token.
class BytePairTokenizer final : public Tokenizer {
 public:
  // A folder with vocab.json and merges.txt, or with a tokenizer.json; or a tokenizer.json itself.
  explicit BytePairTokenizer(const std::filesystem::path& path);
  BytePairTokenizer(const std::filesystem::path& vocab, const std::filesystem::path& merges);
  explicit BytePairTokenizer(BytePairs pairs);

  std::vector<std::int64_t> encode(std::string_view text) const override;
  std::string decode(std::span<const std::int64_t> tokens) const override;
  std::int64_t vocabulary() const override {
    return static_cast<std::int64_t>(pairs_.tokens.size());
  }

  // The number of an added token: token("<|endoftext|>"). Nothing where there is none.
  std::optional<std::int64_t> token(std::string_view added) const;

 private:
  class Words;  // of one encode(), which meets most words again

  std::string_view until_added(std::string_view text) const;
  std::optional<std::pair<std::size_t, std::uint32_t>> added_at(std::string_view text) const;

  BytePairs pairs_;
  std::array<bool, 256> begins_added_{};  // by byte
};

}  // namespace cohort::train

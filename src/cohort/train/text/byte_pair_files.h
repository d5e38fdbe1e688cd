#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cohort::train {

// A byte-pair vocabulary: bytes of tokens, and which two become one, first the smallest rank.
struct BytePairs {
  struct Merge {
    std::uint32_t rank = 0;
    std::uint32_t token = 0;
  };
  static constexpr std::uint32_t kNone = UINT32_MAX;

  std::vector<std::string> tokens;                  // by number; empty: there is none
  std::array<std::uint32_t, 256> bytes{};           // the token of each byte
  std::unordered_map<std::uint64_t, Merge> merges;  // by left << 32 | right
  std::map<std::string, std::uint32_t> added;  // by text: they stand for themselves in any text

  static std::uint64_t pair(std::uint32_t left, std::uint32_t right) {
    return std::uint64_t{left} << 32 | right;
  }
};

// No vocabulary has more tokens.
inline constexpr std::uint64_t kMostTokens = 4'000'000;

// From GPT-2's pair of files, or from a tokenizer.json of HuggingFace's `tokenizers` with a model
// BPE and the pre-tokenizer ByteLevel as GPT-2 has it. Pure functions of the texts; `name` is for
// complaints. InvalidInput names what is wrong or not known here: another model, a merge of tokens
// that are not there, two tokens of one number, a byte without a token, ...
BytePairs parse_gpt2_files(std::string_view vocab, std::string_view merges,
                           const std::string& name);
BytePairs parse_tokenizer_json(std::string_view text, const std::string& name);

}  // namespace cohort::train

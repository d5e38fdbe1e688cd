#include "cohort/train/text/tokenizer.h"

#include "cohort/base/error.h"

namespace cohort::train {

std::vector<std::int64_t> ByteTokenizer::encode(std::string_view text) const {
  std::vector<std::int64_t> tokens;
  tokens.reserve(text.size());
  for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

std::string ByteTokenizer::decode(std::span<const std::int64_t> tokens) const {
  std::string text;
  text.reserve(tokens.size());
  for (const std::int64_t token : tokens) {
    if (token < 0 || token > 255)
      throw InvalidInput(fmt::format("token {} is no byte: 0 to 255", token),
                         {.advice = "Decode with the tokenizer that encoded."});
    text.push_back(static_cast<char>(token));
  }
  return text;
}

}  // namespace cohort::train

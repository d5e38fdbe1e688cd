#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::train {

// Text to numbers and back. decode(encode(text)) is `text`, for any bytes.
// Thread-safe: all methods are const.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::vector<std::int64_t> encode(std::string_view text) const = 0;
  // InvalidInput names a number that is no token.
  virtual std::string decode(std::span<const std::int64_t> tokens) const = 0;
  // Tokens are 0 to vocabulary() - 1.
  virtual std::int64_t vocabulary() const = 0;
};

// Each byte is a token.
class ByteTokenizer final : public Tokenizer {
 public:
  std::vector<std::int64_t> encode(std::string_view text) const override;
  std::string decode(std::span<const std::int64_t> tokens) const override;
  std::int64_t vocabulary() const override { return 256; }
};

}  // namespace cohort::train

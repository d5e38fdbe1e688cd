#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cohort::train {

// How tokens lie in a file: one after another, little-endian.
enum class TokenType { u16, u32 };

// A long row of tokens, read by position. Thread-safe: all methods are const.
class TokenStore {
 public:
  virtual ~TokenStore() = default;
  virtual std::int64_t size() const = 0;
  // The tokens [first, first + out.size()), which are there. InvalidInput where they can no longer
  // be read.
  virtual void read(std::int64_t first, std::span<std::int64_t> out) const = 0;
  // What complaints call it.
  virtual std::string name() const = 0;
};

struct TokenFileOptions {
  TokenType type = TokenType::u16;  // of a raw file; a .npy file says its own
  std::int64_t header_bytes = 0;    // before the first token of a raw file
};

// The tokens of a file as nanoGPT's prepare.py writes them (raw u16 or u32), or of a .npy file of
// one dimension of integers.
//
// The file stays where it is: reads take what they need out of the system's page cache (pread),
// which all processes of a host share, as they would a mapping. Unlike a mapping, a file that has
// become shorter since is InvalidInput and not the signal SIGBUS.
// InvalidInput for a file that is missing, empty, no whole number of tokens, or no such .npy.
std::shared_ptr<const TokenStore> open_token_file(const std::filesystem::path& path,
                                                  const TokenFileOptions& options = {});

// Held in memory. `name` is for complaints.
std::shared_ptr<const TokenStore> tokens_in_memory(std::vector<std::int64_t> tokens,
                                                   std::string name = "tokens in memory");

// Writes a raw file, in one step: a reader sees all of it or nothing. InvalidInput names a token
// that the type cannot hold; SystemError.
void write_token_file(const std::filesystem::path& path, std::span<const std::int64_t> tokens,
                      TokenType type = TokenType::u16);

}  // namespace cohort::train

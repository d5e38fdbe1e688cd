#pragma once

#include <cohort/cohort.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace examples {

// The files of a text: `data` itself, or the *.md and *.txt in it where it is a folder; without
// one the documentation of this tree, looked for beside the program and above it. Sorted by name.
// Throws InvalidInput where there are none.
std::vector<std::filesystem::path> text_files(const std::filesystem::path& data);

// All bytes of the files, one after the other. Throws InvalidInput, SystemError.
std::string read_text(const std::vector<std::filesystem::path>& files);

// That of GPT-2's files in `folder` (docs/data.md); without one every byte is a token.
std::shared_ptr<const cohort::Tokenizer> open_tokenizer(const std::filesystem::path& folder);

// Every byte that is no part of a character of UTF-8 as "?", for the screen.
std::string printable(const std::string& text);

struct TextOptions {
  std::filesystem::path data;      // see text_files(); a *.bin: tokens (write_token_file())
  std::int64_t sequence = 128;     // tokens a sample
  std::int64_t vocabulary = 256;   // of the model: no token's number reaches it
  double validation_share = 0.05;  // the last part of the text
};

// Samples to train on and to validate with: runs of `sequence` tokens, and the tokens that follow
// each of them.
struct TextData {
  cohort::DatasetPtr train, validation;
};

// Throws InvalidInput where the text is too short for a sample of each.
TextData load_text(const TextOptions& options, const cohort::Tokenizer& tokenizer);

}  // namespace examples

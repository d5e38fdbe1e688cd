#pragma once

#include <cstddef>
#include <string_view>

namespace cohort::train {

// How GPT-2 cuts text before it merges bytes, by the expression
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// Returns the length of the first piece of `text`: at least 1, unless the text is empty. Bytes that
// are no UTF-8 are neither letters nor numbers nor spaces. A pure function, linear in the piece.
std::size_t first_gpt2_word(std::string_view text);

}  // namespace cohort::train

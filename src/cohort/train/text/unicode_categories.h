#pragma once

// What a Unicode code point is, as regular expressions ask for it. Pure functions.
namespace cohort::train {

bool is_letter(char32_t code);  // \p{L}
bool is_number(char32_t code);  // \p{N}
bool is_space(char32_t code);   // \s: the property White_Space

}  // namespace cohort::train

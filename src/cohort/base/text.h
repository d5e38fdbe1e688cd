#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Small text helpers. Pure functions.
namespace cohort {

// "a,b,,c" -> {"a", "b", "", "c"}; "" -> {}.
std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string_view trim(std::string_view text);

// The whole of `text` as a decimal number; nothing for "", "3x", "-1" or one that does not fit.
std::optional<std::uint64_t> parse_unsigned(std::string_view text);

// The candidate that a person who typed `word` most likely meant (edit distance); empty when
// nothing is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// The text with control characters (also those of more than one byte, and the ones that turn the
// direction of writing) as \xNN: fit for a terminal, wherever it comes from.
std::string escape_controls(std::string_view text);

// One word for a POSIX shell, quoted only where needed.
std::string shell_quote(std::string_view text);

}  // namespace cohort

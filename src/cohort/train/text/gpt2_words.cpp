#include "cohort/train/text/gpt2_words.h"

#include <array>
#include <cstdint>

#include "cohort/train/text/unicode_categories.h"

namespace cohort::train {
namespace {

enum class CharKind { letter, number, space, other };

struct TextChar {
  CharKind kind = CharKind::other;
  std::size_t bytes = 1;
};

// Of the UTF-8 at the front of `text`; the byte itself where it is none.
TextChar first_char(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  std::size_t bytes = 1;
  char32_t code = lead;
  if (lead >= 0x80) {
    bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
    code = lead & (0xffu >> (bytes + 1));
    for (std::size_t i = 1; i < bytes; ++i) {
      if ((byte(i) & 0xc0) != 0x80) return {};
      code = code << 6 | (byte(i) & 0x3fu);
    }
    constexpr std::array<char32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
    if (code < kLeast.at(bytes) || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {};
  }
  const CharKind kind = is_letter(code)   ? CharKind::letter
                        : is_number(code) ? CharKind::number
                        : is_space(code)  ? CharKind::space
                                          : CharKind::other;
  return {kind, bytes};
}

std::size_t contraction(std::string_view text) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(ending)) return ending.size();
  return 0;
}

// The end of the run of `kind` that goes on at `from`.
std::size_t run_end(std::string_view text, std::size_t from, CharKind kind) {
  while (from < text.size()) {
    const TextChar next = first_char(text.substr(from));
    if (next.kind != kind) break;
    from += next.bytes;
  }
  return from;
}

// A run of spaces; its last one is left to the word behind it.
std::size_t spaces(std::string_view text) {
  std::size_t end = 0, last = 0;
  while (end < text.size()) {
    const TextChar next = first_char(text.substr(end));
    if (next.kind != CharKind::space) return last == 0 ? end : last;
    last = end;
    end += next.bytes;
  }
  return end;
}

}  // namespace

std::size_t first_gpt2_word(std::string_view text) {
  if (text.empty()) return 0;
  if (const std::size_t length = contraction(text)) return length;
  const TextChar first = first_char(text);
  if (first.kind != CharKind::space) return run_end(text, first.bytes, first.kind);
  if (text[0] == ' ' && text.size() > 1) {
    const TextChar second = first_char(text.substr(1));
    if (second.kind != CharKind::space) return run_end(text, 1, second.kind);
  }
  return spaces(text);
}

}  // namespace cohort::train

#include "cohort/ps/model/policy.h"

#include <array>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::ps {
namespace {

template <typename Value, std::size_t kCount>
using Words = std::array<std::pair<std::string_view, Value>, kCount>;

constexpr Words<Policy::Mode, 3> kModes = {{{"sync", Policy::Mode::sync},
                                            {"async", Policy::Mode::async},
                                            {"bounded", Policy::Mode::bounded}}};
constexpr Words<Policy::NotFinite, 3> kNotFinite = {{{"refuse", Policy::NotFinite::refuse},
                                                     {"drop", Policy::NotFinite::drop},
                                                     {"apply", Policy::NotFinite::apply}}};
constexpr Words<Durability, 4> kDurabilities = {{{"none", Durability::none},
                                                 {"process", Durability::process},
                                                 {"replica", Durability::replica},
                                                 {"disk", Durability::disk}}};

template <typename Value, std::size_t kCount>
std::string_view word_of(const Words<Value, kCount>& words, Value value) {
  for (const auto& [word, meaning] : words)
    if (meaning == value) return word;
  return "unknown";
}

template <typename Value, std::size_t kCount>
Value meaning_of(const Words<Value, kCount>& words, std::string_view text, const char* what) {
  std::vector<std::string> known;
  for (const auto& [word, meaning] : words) {
    if (word == text) return meaning;
    known.emplace_back(word);
  }
  throw InvalidInput(fmt::format("'{}' is no {}", text, what),
                     {.advice = "Use one of " + join(known, ", ") + "."});
}

}  // namespace

std::string_view to_string(Policy::Mode mode) { return word_of(kModes, mode); }
std::string_view to_string(Policy::NotFinite rule) { return word_of(kNotFinite, rule); }
std::string_view to_string(Durability durability) { return word_of(kDurabilities, durability); }

Policy::Mode parse_mode(std::string_view text) {
  return meaning_of(kModes, text, "way of synchronising workers");
}
Policy::NotFinite parse_not_finite(std::string_view text) {
  return meaning_of(kNotFinite, text, "rule for gradients that are not finite");
}
Durability parse_durability(std::string_view text) {
  return meaning_of(kDurabilities, text, "level of durability");
}

}  // namespace cohort::ps

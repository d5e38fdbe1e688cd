#pragma once

namespace cohort::launch {

// A value of an enum and the word for it: each enum has one table of them.
template <typename Value>
struct Choice {
  const char* word;
  Value value;
};

// The word for a value; "" for one that the table lacks.
template <typename Choices, typename Value>
constexpr const char* word_for(const Choices& choices, Value value) {
  for (const auto& [word, choice] : choices)
    if (choice == value) return word;
  return "";
}

}  // namespace cohort::launch

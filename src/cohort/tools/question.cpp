#include "cohort/tools/question.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cctype>

namespace cohort::tools {
namespace {

// A line of standard input; nothing at its end, and when a signal came.
std::string read_answer() {
  std::string line;
  for (char c; ::read(STDIN_FILENO, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

}  // namespace

bool can_ask() { return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1; }

char ask_person(const std::string& question, std::string_view letters) {
  std::string choices;
  for (const char letter : letters)
    choices += fmt::format("{}{}", choices.empty() ? "" : "/", letter);
  while (true) {
    fmt::print(stderr, "{} [{}] ", question, choices);
    std::fflush(stderr);
    const std::string answer = read_answer();
    if (answer.empty()) return letters.back();
    const char letter = static_cast<char>(std::tolower(static_cast<unsigned char>(answer.front())));
    if (letters.find(letter) != letters.npos) return letter;
  }
}

}  // namespace cohort::tools

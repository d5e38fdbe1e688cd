#include "cohort/launch/output/error_line.h"

#include <algorithm>
#include <cctype>
#include <csignal>

#include "cohort/base/text.h"
#include "cohort/launch/output/screen.h"

namespace cohort::launch {
namespace {

constexpr std::size_t kLongestErrorLine = 500;
constexpr int kMostLinesBehind = 60;  // of an error whose report has many

template <std::size_t kCount>
bool has_any(std::string_view line, const std::string_view (&phrases)[kCount]) {
  return std::any_of(std::begin(phrases), std::end(phrases), [&](std::string_view phrase) {
    return line.find(phrase) != std::string_view::npos;
  });
}

std::size_t count_digits(std::string_view text) {
  return static_cast<std::size_t>(
      std::find_if_not(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); }) -
      text.begin());
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }

// What frameworks still print while a process that has failed already comes down.
bool is_teardown_noise(std::string_view line) {
  static constexpr std::string_view kPhrases[] = {
      "terminate called without an active exception",  // PyTorch's threads, now and then
      "terminate called recursively",
      "srun: error: ",  // of its step, behind what the task has said
      "srun: Job step aborted",
      "] Warning: ",  // PyTorch: "[rank0]:[W1115 ... x.cpp:12]"
      ": I tensorflow/",
      ": W tensorflow/",
      ": I external/",
      ": W external/"};
  return has_any(line, kPhrases);
}

// Between a chain's tracebacks, and around LibTorch's and JAX's frames.
bool belongs_to_a_trace(std::string_view line) {
  static constexpr std::string_view kPhrases[] = {
      "During handling of the above exception, another exception occurred:",
      "The above exception was the direct cause of the following exception:",
      "The stack trace below excludes JAX-internal frames.",
      "For simplicity, JAX has removed its internal frames",
      "Exception raised from ",
      "C++ CapturedTraceback:"};
  return is_stack_frame(line) || has_any(line, kPhrases);
}

bool is_native_complaint(std::string_view line) {
  static constexpr std::string_view kPhrases[] = {"double free or corruption",
                                                  "malloc(): ",
                                                  "free(): ",
                                                  "realloc(): ",
                                                  "calloc(): ",
                                                  "munmap_chunk(): ",
                                                  "corrupted size vs. prev_size",
                                                  "corrupted double-linked list",
                                                  "*** stack smashing detected ***",
                                                  "*** buffer overflow detected ***",
                                                  "Sanitizer: ",  // ERROR: and SUMMARY: of each
                                                  ": runtime error: ",
                                                  "Fatal Python error: "};
  return has_any(line, kPhrases) || (line.find(": Assertion `") != std::string_view::npos &&
                                     line.find("' failed.") != std::string_view::npos);
}

// "ValueError: ...", "torch.OutOfMemoryError: ...".
bool names_an_exception(std::string_view line) {
  const std::string_view name = line.substr(0, line.find(':'));
  const bool is_name = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '.';
  });
  return is_name && (name.ends_with("Error") || name.ends_with("Exception"));
}

// PyTorch puts "[rank3]: " in front of each line.
std::string_view without_rank(std::string_view line) {
  constexpr std::string_view kRank = "[rank";
  if (!line.starts_with(kRank)) return line;
  const std::size_t digits = count_digits(line.substr(kRank.size()));
  const std::string_view rest = line.substr(kRank.size() + digits);
  if (digits == 0 || !rest.starts_with("]:")) return line;
  return rest.starts_with("]: ") ? rest.substr(3) : rest.substr(2);
}

}  // namespace

bool is_stack_frame(std::string_view line) {
  const std::string_view text = trim(without_rank(line));
  const bool named = text.starts_with("frame #");
  if (!named && !text.starts_with('#')) return false;
  const std::string_view number = text.substr(named ? 7 : 1);
  const std::size_t digits = count_digits(number);
  const std::string_view rest = number.substr(digits);
  if (digits == 0) return false;
  if (named) return rest.starts_with(": ");
  return rest.starts_with(" 0x") ||
         (rest.starts_with(' ') && rest.find(" from ") != std::string_view::npos);
}

void ErrorLine::set_error(Kind kind, std::string text) {
  error_ = std::move(text);
  kind_ = kind;
  lines_since_ = 0;
}

void ErrorLine::add(std::string_view raw, bool is_redraw) {
  std::string line = printable(raw.substr(0, kLongestErrorLine));
  if (is_redraw) {
    if (!trim(line).empty()) last_ = trim(line);
    return;
  }
  const std::string_view bare = without_rank(line);
  if (trim(bare).empty() || belongs_to_a_trace(line)) return;
  if (is_teardown_noise(line)) {
    noise_ = trim(line);
    return;
  }
  if (take_native(line, bare) || take_python(line, bare)) return;
  // More of the error's own message, most likely.
  if (kind_ != Kind::none && lines_since_ == 0 && is_blank(bare.front())) return;
  last_ = trim(line);
  ++lines_since_;
}

bool ErrorLine::take_native(const std::string& line, std::string_view bare) {
  constexpr std::string_view kTerminate = "terminate called after throwing an instance of '";
  constexpr std::string_view kWhat = "  what():  ";
  if (const std::size_t at = bare.find(kTerminate); at != std::string_view::npos) {
    thrown_ = bare.substr(at + kTerminate.size());
    thrown_.resize(std::min(thrown_.find('\''), thrown_.size()));
    set_error(Kind::native, std::string(trim(line)));
  } else if (!thrown_.empty() && bare.starts_with(kWhat)) {
    set_error(Kind::native, thrown_ + ": " + std::string(trim(bare.substr(kWhat.size()))));
    thrown_.clear();
  } else if (is_native_complaint(bare)) {
    set_error(Kind::native, std::string(trim(line)));
  } else {
    return false;
  }
  in_traceback_ = false;
  return true;
}

bool ErrorLine::take_python(const std::string& line, std::string_view bare) {
  constexpr std::string_view kGraphError = "Graph execution error:";
  if (bare.ends_with("Traceback (most recent call last):")) {
    in_traceback_ = true;
    return true;
  }
  if (in_traceback_) {
    if (is_blank(bare.front())) return true;
    in_traceback_ = false;
    set_error(Kind::python, std::string(trim(line)));
    return true;
  }
  if (kind_ != Kind::python) return false;
  // TensorFlow says only then what went wrong in the graph: in the line before the node's name.
  if (error_.ends_with(kGraphError) && bare.find("[[{{node ") != std::string_view::npos) {
    if (lines_since_ > 0) error_ += " " + last_;
    return true;
  }
  // TensorFlow's autograph repeats the exception, indented, with what it was about.
  const bool is_nested = error_.ends_with("in user code:") && names_an_exception(trim(bare));
  if (!is_nested && !names_an_exception(bare)) return false;
  set_error(Kind::python, std::string(trim(line)));
  return true;
}

std::string ErrorLine::text(const ExitStatus& exit) const {
  // An exception that Python did not catch ends it with 1.
  const bool fits = kind_ == Kind::python
                        ? exit.code == 1
                        : exit.signal != SIGKILL && exit.signal != SIGTERM && exit.signal != SIGINT;
  if (!error_.empty() && (lines_since_ == 0 || (fits && lines_since_ <= kMostLinesBehind)))
    return error_;
  if (!last_.empty()) return last_;
  return noise_;
}

}  // namespace cohort::launch

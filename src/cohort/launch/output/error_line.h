#pragma once

#include <string>
#include <string_view>

#include "cohort/launch/process/process.h"

namespace cohort::launch {

// True for a line of a native stack trace: LibTorch's "frame #3: ..." and "#3 ... from ...", a
// sanitizer's "    #3 0x...".
bool is_stack_frame(std::string_view line);

// Finds in a task's output the line that says what went wrong: what stands behind it (frames,
// TensorFlow's "Original stack trace", a sanitizer's shadow bytes, what frameworks print while they
// come down) may be longer than the lines that are kept, so it looks at every line as it comes.
//
// - Python: the exception's line of the last traceback, also of a chain of them.
// - C++: the type and what() of an exception that was not caught; glibc's and assert's complaints.
// - Sanitizers: the SUMMARY, else the ERROR.
// - Otherwise the last line that is neither blank nor such noise.
//
// An error in the output need not be why the process ended: one that other lines follow counts only
// where the process ended as that kind of error makes it end. Bounded memory; confined to one
// thread.
class ErrorLine {
 public:
  // Without its end. A redraw replaces the line before, as a progress bar does.
  void add(std::string_view line, bool is_redraw = false);

  // "" when nothing was printed. `exit`: how the process ended.
  std::string text(const ExitStatus& exit) const;

 private:
  enum class Kind { none, python, native };
  void set_error(Kind kind, std::string text);
  bool take_native(const std::string& line, std::string_view bare);
  bool take_python(const std::string& line, std::string_view bare);

  std::string error_;
  Kind kind_ = Kind::none;
  int lines_since_ = 0;       // ordinary ones, behind the error
  std::string last_, noise_;  // the newest ordinary line, and the newest noise
  bool in_traceback_ = false;
  std::string thrown_;  // the type that terminate() named; its what() comes next
};

}  // namespace cohort::launch

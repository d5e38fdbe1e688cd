#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace cohort::launch {

// Cuts a task's byte stream into lines for the screen. Memory is bounded: of a line longer than
// kMaxLine only the beginning is kept and the rest is counted.
//
// A carriage return inside a line (progress bars redraw themselves with it) ends a `redraw`, of
// which only the newest matters. Confined to one thread.
class LineSplitter {
 public:
  static constexpr size_t kMaxLine = 64 * 1024;

  struct Line {
    std::string_view text;   // valid during the callback; without its terminator
    size_t cut_bytes = 0;    // how many bytes past kMaxLine were left out
    bool is_redraw = false;  // ended by '\r': another version of it follows
  };
  using Callback = std::function<void(const Line&)>;

  explicit LineSplitter(Callback callback) : callback_(std::move(callback)) {}

  void feed(std::string_view bytes);
  void finish();  // hands out a last line that has no newline

 private:
  void append(std::string_view bytes);
  void emit(bool is_redraw);

  Callback callback_;
  std::string partial_;
  size_t cut_bytes_ = 0;
  bool pending_return_ = false;  // a '\r' was seen; "\r\n" is one line end
};

}  // namespace cohort::launch

#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>

namespace cohort::report {

// Columns of the terminal behind `fd`; 80 where it does not say.
int terminal_columns(int fd);

// Whether `fd` is a terminal on which a line can be written over (TERM is not "dumb").
bool is_live_terminal(int fd);

// The length of a colour sequence (ESC [ ... m) at the start of `text`; 0 for anything else.
std::size_t colour_sequence_length(std::string_view text);

// The beginning of `text` that fits into `columns`. Bytes of one UTF-8 character stay together and
// count as one column; colour sequences count as none and are all kept.
std::string clip_columns(std::string_view text, int columns);

// The last line of a terminal, written over again and again while other lines go above it.
//
// Thread-safe. A reader that is gone makes every later call return false; a slow one is waited for
// as reader_output.h says. The destructor takes the line away.
class LiveLine {
 public:
  explicit LiveLine(int fd) : fd_(fd) {}
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;
  ~LiveLine() { erase(); }

  // Shows `text` (no line end in it) in place of what is there, cut to the terminal's width.
  bool show(std::string_view text);
  // Writes whole lines above the line.
  bool print(std::string_view lines);
  // Takes the line away for somebody else's lines; the next show() or print() brings it back.
  void hide();
  // Takes the line away for good.
  void erase();
  // From here on a reader that does not read is not waited for.
  void drop_if_blocked() { drop_if_blocked_ = true; }

 private:
  bool write(std::string_view bytes);
  std::string drawn() const;

  const int fd_;
  std::mutex mutex_;
  std::string text_;
  bool visible_ = false;
  bool broken_ = false;
  std::atomic<bool> drop_if_blocked_ = false;
};

}  // namespace cohort::report

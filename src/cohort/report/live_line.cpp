#include "cohort/report/live_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "cohort/base/log/reader_output.h"

namespace cohort::report {
namespace {

constexpr std::string_view kClear = "\r\x1b[K";
constexpr std::string_view kNoColour = "\x1b[0m";
constexpr int kDefaultColumns = 80;

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

}  // namespace

std::size_t colour_sequence_length(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

int terminal_columns(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kDefaultColumns;
}

bool is_live_terminal(int fd) {
  const char* term = std::getenv("TERM");
  return ::isatty(fd) == 1 && !(term && std::string_view(term) == "dumb");
}

std::string clip_columns(std::string_view text, int columns) {
  std::string clipped;
  bool full = false;
  for (int used = 0; !text.empty();) {
    if (std::size_t length = colour_sequence_length(text)) {
      clipped += text.substr(0, length);
      text.remove_prefix(length);
      continue;
    }
    std::size_t length = 1;
    while (length < text.size() && continues_character(text[length])) ++length;
    full = full || used >= columns;
    if (!full) clipped += text.substr(0, length);
    text.remove_prefix(length);
    ++used;
  }
  return clipped;
}

bool LiveLine::show(std::string_view text) {
  std::lock_guard lock(mutex_);
  text_ = text;
  return write(drawn());
}

bool LiveLine::print(std::string_view lines) {
  std::lock_guard lock(mutex_);
  std::string bytes(visible_ ? kClear : "");
  visible_ = false;
  bytes += lines;
  bytes += drawn();
  return write(bytes);
}

void LiveLine::hide() {
  std::lock_guard lock(mutex_);
  if (visible_) write(kClear);
  visible_ = false;
}

void LiveLine::erase() {
  hide();
  std::lock_guard lock(mutex_);
  text_.clear();
}

std::string LiveLine::drawn() const {
  if (text_.empty()) return std::string(visible_ ? kClear : "");
  // A full line would make some terminals wrap.
  std::string line(kClear);
  line += clip_columns(text_, terminal_columns(fd_) - 1);
  if (text_.find('\x1b') != std::string::npos) line += kNoColour;
  return line;
}

bool LiveLine::write(std::string_view bytes) {
  visible_ = !text_.empty();
  if (!broken_ && !bytes.empty()) broken_ = !write_to_reader(fd_, bytes, drop_if_blocked_);
  return !broken_;
}

}  // namespace cohort::report

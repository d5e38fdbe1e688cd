#include "cohort/launch/screen.h"

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/base/reader_output.h"
#include "cohort/base/text.h"

namespace cohort::launch {
namespace {

constexpr size_t kBatch = 64 * 1024;
constexpr auto kRedrawInterval = std::chrono::seconds(1);

// The length of a colour sequence ESC [ digits ; ... m at the start of `text`; 0 for anything else.
size_t colour_sequence_length(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    auto byte = static_cast<unsigned char>(text[i]);
    if (size_t length = colour_sequence_length(text.substr(i))) {
      result += text.substr(i, length);
      i += length;
      continue;
    }
    if ((byte < 0x20 && byte != '\t') || byte == 0x7f)
      result += fmt::format("\\x{:02x}", byte);
    else
      result += text[i];
    ++i;
  }
  return result;
}

Screen::Screen(ScreenOptions options) : options_(std::move(options)) {
  for (const auto& text : options_.show) {
    bool whole_type = text.find_first_of(":/") == std::string::npos;
    if (whole_type) {
      filters_.push_back({cluster::parse_task_type(text), -1});
    } else {
      auto task = cluster::parse_task_id(text);
      filters_.push_back({task.type, task.index});
    }
  }
}

bool Screen::shows(const cluster::TaskId& task) const {
  if (filters_.empty()) return true;
  return std::any_of(filters_.begin(), filters_.end(), [&](const Filter& filter) {
    return filter.type == task.type && (filter.index < 0 || filter.index == task.index);
  });
}

const std::string& Screen::prefix(const std::string& host, const cluster::TaskId& task) {
  auto found = prefixes_.find(task);
  if (found != prefixes_.end()) return found->second;
  std::string text = fmt::format("{}:{}", host, to_string(task));
  if (options_.colour) {
    constexpr int kColours[] = {36, 32, 33, 35, 34, 96, 92, 93, 95, 94};
    int colour = kColours[prefixes_.size() % std::size(kColours)];
    text = fmt::format("\x1b[{}m{}\x1b[0m", colour, text);
  }
  return prefixes_.emplace(task, text + " ").first->second;
}

void Screen::print(const std::string& host, const cluster::TaskId& task,
                   const LineSplitter::Line& line) {
  if (broken_ || !shows(task)) return;
  if (line.is_redraw) {
    auto now = Clock::now();
    auto [entry, is_new] = last_redraw_.try_emplace(task, now);
    if (!is_new && now - entry->second < kRedrawInterval) return;
    entry->second = now;
  }
  std::string& text = pending_;
  text += prefix(host, task);
  text += options_.escape ? printable(line.text) : std::string(line.text);
  if (options_.colour && line.text.find('\x1b') != std::string_view::npos) text += "\x1b[0m";
  if (line.cut_bytes > 0)
    text += fmt::format(" ... [{} bytes more, see its log file]", line.cut_bytes);
  text += '\n';
  if (pending_.size() >= kBatch) flush();
}

void Screen::flush() {
  if (!broken_ && !pending_.empty()) broken_ = !write_to_reader(options_.fd, pending_, hurry_);
  pending_.clear();
}

}  // namespace cohort::launch

#include "cohort/launch/output/screen.h"

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/log/reader_output.h"
#include "cohort/base/text.h"

namespace cohort::launch {
namespace {

constexpr size_t kBatch = 64 * 1024;
constexpr auto kRedrawInterval = std::chrono::seconds(1);
constexpr auto kLiveInterval = std::chrono::milliseconds(100);

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    auto byte = static_cast<unsigned char>(text[i]);
    if (size_t length = report::colour_sequence_length(text.substr(i))) {
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
  if (!options_.live) return;
  live_ = std::make_unique<report::LiveLine>(options_.fd);
  log::set_before_line([this] { live_->hide(); });
}

Screen::~Screen() {
  if (live_) log::set_before_line({});
}

void Screen::drop_if_blocked() {
  drop_if_blocked_ = true;
  if (live_) live_->drop_if_blocked();
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
  if (live_ && line.is_redraw) return keep_alive(host, task, line.text);
  if (live_task_ == task) end_live();  // the line's last version, or what comes after it
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

void Screen::keep_alive(const std::string& host, const cluster::TaskId& task,
                        std::string_view text) {
  if (live_task_ && *live_task_ < task) return;
  if (trim(text).empty()) {
    if (live_task_ == task) end_live();
    return;
  }
  auto now = Clock::now();
  if (live_task_ == task && now - last_live_ < kLiveInterval) return;
  last_live_ = now;
  live_task_ = task;
  live_text_ = prefix(host, task) + printable(text);
  live_changed_ = true;
}

void Screen::end_live() {
  live_task_.reset();
  live_text_.clear();
  live_changed_ = true;
}

void Screen::finish(const cluster::TaskId& task) {
  if (live_task_ != task) return;
  // Where it was when it ended.
  pending_ += live_text_ + (options_.colour ? "\x1b[0m\n" : "\n");
  end_live();
  flush();
}

void Screen::flush() {
  if (broken_ || !live_) {
    if (!broken_ && !pending_.empty())
      broken_ = !write_to_reader(options_.fd, pending_, drop_if_blocked_);
  } else {
    if (live_changed_ && live_text_.empty()) live_->erase();
    if (!pending_.empty()) broken_ = !live_->print(pending_);
    if (live_changed_ && !live_text_.empty()) broken_ = !live_->show(live_text_);
    live_changed_ = false;
  }
  pending_.clear();
}

}  // namespace cohort::launch

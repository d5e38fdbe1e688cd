#include "cohort/sdk/log_printer.h"

#include <fmt/format.h>

#include <iterator>

#include "cohort/base/log/reader_output.h"

namespace cohort::sdk {

const std::string& LogPrinter::prefix(const std::string& task) {
  if (const auto found = prefixes_.find(task); found != prefixes_.end()) return found->second;
  std::string text = task;
  if (options_.colour) {
    constexpr int kColours[] = {36, 32, 33, 35, 34,
                                96, 92, 93, 95, 94};  // as `cohort run` has them
    text = fmt::format("\x1b[{}m{}\x1b[0m", kColours[prefixes_.size() % std::size(kColours)], task);
  }
  return prefixes_.emplace(task, text + " ").first->second;
}

void LogPrinter::add_line(const std::string& task, std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (const std::size_t redrawn = line.rfind('\r'); redrawn != line.npos)
    line.remove_prefix(redrawn + 1);
  if (options_.show_tasks) pending_ += prefix(task);
  if (options_.clean)
    pending_ += options_.clean(line);
  else
    pending_ += line;
  if (options_.colour && line.find('\x1b') != line.npos) pending_ += "\x1b[0m";
  pending_ += '\n';
}

bool LogPrinter::print(const LogText& piece) {
  if (attempt_ != 0 && piece.attempt != attempt_) {
    finish();
    pending_ += fmt::format("-- attempt {} --\n", piece.attempt);
  }
  attempt_ = piece.attempt;
  std::string_view text = piece.text;
  std::string& partial = partial_[piece.task];
  for (std::size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
    add_line(piece.task, partial.append(text.substr(0, end)));
    partial.clear();
  }
  partial += text;
  flush();
  return !broken_;
}

void LogPrinter::finish() {
  for (auto& [task, text] : partial_)
    if (!text.empty()) add_line(task, text);
  partial_.clear();
  flush();
}

void LogPrinter::flush() {
  if (!broken_ && !pending_.empty())
    broken_ = !write_to_reader(options_.fd, pending_, /*drop_if_blocked=*/false);
  pending_.clear();
}

}  // namespace cohort::sdk

#include "cohort/report/progress.h"

#include <cstdlib>
#include <string>

#include "cohort/base/log/log.h"
#include "cohort/base/log/reader_output.h"
#include "cohort/base/text.h"
#include "cohort/report/progress_file.h"

namespace cohort::report {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kLiveInterval{100};
constexpr milliseconds kRelayedInterval{500};  // each one is also a line of the task's log file
constexpr seconds kPlainInterval{10};
constexpr seconds kPlainGap{1};
constexpr seconds kRecordInterval{1};
constexpr int kWidestRelayed = 1000;

// The second return tells the launcher at once that the line is whole: after one, a '\n' could
// follow.
constexpr const char* kEndOfFrame = "\r\r";

}  // namespace

ProgressOptions ProgressOptions::detect(int fd) {
  ProgressOptions options{.fd = fd};
  const char* relayed = std::getenv(kProgressVariable);
  auto columns = parse_unsigned(relayed ? relayed : "");
  if (is_live_terminal(fd)) {
    options.mode = ProgressMode::live;
  } else if (columns && *columns > 0 && *columns <= kWidestRelayed) {
    options.mode = ProgressMode::relayed;
    options.columns = static_cast<int>(*columns);
  }
  const char* output = std::getenv("COHORT_OUTPUT");
  if (output && *output) options.record = std::filesystem::path(output) / kProgressFile;
  return options;
}

Progress::Progress(ProgressOptions options) : options_(std::move(options)) {
  if (options_.mode != ProgressMode::live) return;
  live_ = std::make_unique<LiveLine>(options_.fd);
  log::set_before_line([this] { live_->hide(); });
}

bool Progress::tenth_passed(std::int64_t epoch, std::int64_t step, std::int64_t steps) const {
  if (steps <= 0) return false;
  return epoch != last_epoch_ || step * 10 / steps > last_tenth_;
}

bool Progress::due(std::int64_t epoch, std::int64_t step, std::int64_t steps) {
  if (options_.mode == ProgressMode::silent) return false;
  if (!shown_) return true;
  auto since = options_.now() - last_shown_;
  switch (options_.mode) {
    case ProgressMode::live:
      return since >= kLiveInterval;
    case ProgressMode::relayed:
      return since >= kRelayedInterval;
    default:
      return since >= kPlainInterval || (since >= kPlainGap && tenth_passed(epoch, step, steps));
  }
}

void Progress::record(const ProgressState& state) {
  if (options_.mode == ProgressMode::silent || options_.record.empty()) return;
  if (shown_ && options_.now() - last_recorded_ < kRecordInterval) return;
  last_recorded_ = options_.now();
  if (!write_progress_file(options_.record, state)) options_.record.clear();
}

void Progress::show(const ProgressState& state) {
  record(state);
  shown_ = true;
  last_shown_ = options_.now();
  last_epoch_ = state.epoch;
  last_tenth_ = state.steps > 0 ? state.step * 10 / state.steps : 0;
  switch (options_.mode) {
    case ProgressMode::live:
      live_->show(format_progress(state, terminal_columns(options_.fd) - 1));
      break;
    case ProgressMode::relayed:
      write_to_reader(options_.fd, format_progress(state, options_.columns) + kEndOfFrame, false);
      break;
    case ProgressMode::plain:
      write_to_reader(options_.fd, format_progress(state, 0) + "\n", false);
      break;
    case ProgressMode::silent:
      break;
  }
}

void Progress::print(std::string_view line) {
  if (options_.mode == ProgressMode::silent) return;
  std::string text(line);
  text += '\n';
  if (live_)
    live_->print(text);
  else
    write_to_reader(options_.fd, text, false);
}

void Progress::close() {
  if (live_) {
    log::set_before_line({});
    live_.reset();
  } else if (options_.mode == ProgressMode::relayed && shown_) {
    // A blank line written over the last one: the launcher takes it away.
    write_to_reader(options_.fd, std::string(" ") + kEndOfFrame, false);
  }
  options_.mode = ProgressMode::silent;
}

}  // namespace cohort::report

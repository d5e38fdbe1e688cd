#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/cluster/task.h"
#include "cohort/launch/output/line_splitter.h"
#include "cohort/report/live_line.h"

namespace cohort::launch {

// `text` with everything that could disturb a terminal made visible (\x07), colours excepted.
std::string printable(std::string_view text);

struct ScreenOptions {
  int fd = 1;
  bool colour = false;
  bool escape = false;            // make control bytes visible (a terminal)
  bool live = false;              // keep a line that a task redraws at the bottom (a terminal)
  std::vector<std::string> show;  // as --show: "worker:0", "ps"; empty shows every task
};

// Prints tasks' lines, each behind its `host:role/index`; a write() ends with a line, so that lines
// never mix. With `live`, a line that a task redraws (a progress bar) stays the last one of the
// terminal and is written over; where several tasks do so, that of the first task. Once the reader
// of the descriptor is gone it falls silent: the job and its log files go on. A slow reader is
// waited for until the job is to be stopped (reader_output.h). Confined to one thread.
class Screen {
 public:
  using Clock = std::chrono::steady_clock;

  // Throws InvalidInput for a filter that names no task type or index.
  explicit Screen(ScreenOptions options);
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen();

  // From here on a reader that does not read is not waited for, but given up.
  void drop_if_blocked();

  // Lines show up after the next flush(): call it whenever no more of them is at hand.
  void print(const std::string& host, const cluster::TaskId& task, const LineSplitter::Line& line);
  void flush();
  // Nothing more comes from this task: a line that it kept alive stays as it is.
  void finish(const cluster::TaskId& task);

 private:
  struct Filter {
    cluster::TaskType type;
    int index;  // -1: all of the type
  };
  bool shows(const cluster::TaskId& task) const;
  const std::string& prefix(const std::string& host, const cluster::TaskId& task);
  void keep_alive(const std::string& host, const cluster::TaskId& task, std::string_view text);
  void end_live();

  ScreenOptions options_;
  std::vector<Filter> filters_;
  std::map<cluster::TaskId, std::string> prefixes_;
  std::map<cluster::TaskId, Clock::time_point> last_redraw_;
  std::unique_ptr<report::LiveLine> live_;
  std::optional<cluster::TaskId> live_task_;  // whose line lives
  std::string live_text_;
  bool live_changed_ = false;
  Clock::time_point last_live_;
  bool drop_if_blocked_ = false;
  bool broken_ = false;
  std::string pending_;  // whole lines
};

}  // namespace cohort::launch

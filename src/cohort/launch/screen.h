#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/cluster/task.h"
#include "cohort/launch/line_splitter.h"

namespace cohort::launch {

// `text` with everything that could disturb a terminal made visible (\x07), colours excepted.
std::string printable(std::string_view text);

struct ScreenOptions {
  int fd = 1;
  bool colour = false;
  bool escape = false;            // make control bytes visible (a terminal)
  std::vector<std::string> show;  // as --show: "worker:0", "ps"; empty shows every task
};

// Prints tasks' lines, each behind its `host:role/index`; a write() ends with a line, so that lines
// never mix. Once the reader of the descriptor is gone it falls silent: the job and its log files
// go on. A slow reader is waited for until the job is to be stopped (reader_output.h). Confined to
// one thread.
class Screen {
 public:
  using Clock = std::chrono::steady_clock;

  // Throws InvalidInput for a filter that names no task type or index.
  explicit Screen(ScreenOptions options);

  // From here on a reader that does not read is not waited for, but given up.
  void hurry() { hurry_ = true; }

  // Lines show up after the next flush(): call it whenever no more of them is at hand.
  void print(const std::string& host, const cluster::TaskId& task, const LineSplitter::Line& line);
  void flush();

 private:
  struct Filter {
    cluster::TaskType type;
    int index;  // -1: all of the type
  };
  bool shows(const cluster::TaskId& task) const;
  const std::string& prefix(const std::string& host, const cluster::TaskId& task);

  ScreenOptions options_;
  std::vector<Filter> filters_;
  std::map<cluster::TaskId, std::string> prefixes_;
  std::map<cluster::TaskId, Clock::time_point> last_redraw_;
  bool hurry_ = false;
  bool broken_ = false;
  std::string pending_;  // whole lines
};

}  // namespace cohort::launch

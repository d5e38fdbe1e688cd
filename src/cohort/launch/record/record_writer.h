#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>

#include "cohort/base/net/event_loop.h"

namespace cohort::launch {

// Keeps OUTPUT/job.json up to date. A record grows with the job, and so does what writing it costs:
// write_soon() leaves most of the launcher's time to the tasks. A folder that cannot be written is
// warned of once; the job goes on.
//
// Confined to the loop's thread; `loop` must outlive it.
class RecordWriter {
 public:
  // `content` is what the file is to hold now.
  RecordWriter(std::filesystem::path file, EventLoop& loop, std::function<std::string()> content);
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  ~RecordWriter();

  void write();
  void write_soon();  // now, or when it is worth it again
  void write_other(const std::filesystem::path& file, const std::string& text, mode_t mode);

 private:
  std::filesystem::path file_;
  EventLoop& loop_;
  std::function<std::string()> content_;
  bool has_warned_ = false;
  EventLoop::Clock::time_point due_;  // when write_soon() may write again
  EventLoop::TimerId timer_ = 0;
};

}  // namespace cohort::launch

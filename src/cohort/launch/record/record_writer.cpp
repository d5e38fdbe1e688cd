#include "cohort/launch/record/record_writer.h"

#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/log/log.h"

namespace cohort::launch {
namespace {

constexpr int kPause = 10;  // so many times longer than writing a record is the pause after it

}  // namespace

RecordWriter::RecordWriter(std::filesystem::path file, EventLoop& loop,
                           std::function<std::string()> content)
    : file_(std::move(file)), loop_(loop), content_(std::move(content)) {}

RecordWriter::~RecordWriter() { loop_.cancel(timer_); }

void RecordWriter::write_soon() {
  if (timer_ != 0) return;
  if (EventLoop::Clock::now() >= due_) return write();
  timer_ = loop_.call_at(due_, [this] { write(); });
}

void RecordWriter::write() {
  loop_.cancel(std::exchange(timer_, 0));
  const auto begun = EventLoop::Clock::now();
  write_other(file_, content_(), 0644);
  const auto ended = EventLoop::Clock::now();
  due_ = ended + kPause * (ended - begun);
}

void RecordWriter::write_other(const std::filesystem::path& file, const std::string& text,
                               mode_t mode) {
  try {
    write_file_atomically(file, text, mode);
    has_warned_ = false;
  } catch (const SystemError& error) {
    if (!has_warned_) log::warning("{}; the job goes on", error.what());
    has_warned_ = true;
  }
}

}  // namespace cohort::launch

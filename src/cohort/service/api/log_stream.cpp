#include "cohort/service/api/log_stream.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cohort/service/api/json_rows.h"
#include "cohort/service/logs/log_tail.h"

namespace cohort::service {
namespace {

constexpr std::chrono::milliseconds kSoon{50};
constexpr std::chrono::milliseconds kLater{500};

}  // namespace

LogStream::LogStream(ApiContext& context, const JobRow& job, LogQuery query)
    : SseStream(context.touch),
      context_(context),
      id_(job.id),
      engine_(context.engine(job.engine)),
      query_(std::move(query)),
      poll_(kSoon) {
  if (query_.after) cursor_ = *query_.after;
}

BodyStream::Then LogStream::fill(std::string& bytes) {
  const auto job = context_.store.find_job(id_);
  if (!job) {
    JobRow gone{.state = JobState::stopped, .reason = "the job was deleted"};
    add_event(bytes, "end", "", dumped(end_json(gone)));
    return Then::end();
  }
  if (cursor_.attempt == 0) cursor_.attempt = first_attempt(*job);
  // Looked at before the logs are read: what was written until then is there to read.
  const bool ended = has_ended(job->state);
  const bool past = ended || job->attempt > cursor_.attempt;
  const std::size_t before = bytes.size();
  bool all_done = true;
  if (cursor_.attempt > 0 && engine_) {
    const auto names = wanted_tasks();
    if (!begin_tasks(names)) return Then::more();
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string& task = names[turn_++ % names.size()];
      all_done = !send_some(task, past, bytes) && all_done;
      if (bytes.size() - before >= kPiece) return Then::more();
    }
  }
  if (!past || !all_done || bytes.size() != before) return pause(bytes.size() != before);
  if (job->attempt > cursor_.attempt) {
    cursor_ = {.attempt = cursor_.attempt + 1, .offsets = {}};
    is_done_.clear();
    return Then::more();
  }
  add_event(bytes, "end", "", dumped(end_json(*job)));
  return Then::end();
}

// 0: there is none yet.
int LogStream::first_attempt(const JobRow& job) const {
  if (job.attempt == 0 || query_.tail) return job.attempt;
  if (!query_.since) return 1;
  for (const AttemptRow& attempt : context_.store.attempts(id_))
    if (attempt.ended == 0 || attempt.ended >= *query_.since) return attempt.number;
  return job.attempt;
}

std::vector<std::string> LogStream::wanted_tasks() const {
  std::vector<std::string> names;
  for (const TaskRow& task : context_.store.tasks(id_, cursor_.attempt))
    if (query_.tasks.empty() ||
        std::find(query_.tasks.begin(), query_.tasks.end(), task.name) != query_.tasks.end())
      names.push_back(task.name);
  return names;
}

// Where each task that is seen for the first time begins; one search for a tail at a time. True
// once all have begun: then the cursor of any event stands for all of them.
bool LogStream::begin_tasks(const std::vector<std::string>& names) {
  for (const std::string& task : names) {
    if (!is_done_.emplace(task, false).second || query_.after) continue;
    if (query_.since)
      cursor_.offsets[task] =
          context_.store.log_offset_at(id_, cursor_.attempt, task, *query_.since);
    if (!query_.tail) continue;
    const auto folder = context_.folders.attempt(id_, cursor_.attempt);
    const auto read = [&](std::uint64_t offset, std::size_t most) {
      return engine_->read_log(folder, task, offset, most).bytes;
    };
    std::uint64_t& offset = cursor_.offsets[task];
    offset = std::max(offset, offset_of_tail(read, *query_.tail));
    return false;
  }
  if (!names.empty()) query_.tail.reset();  // later tasks and attempts: from their beginning
  return true;
}

// One event, where there is something to send. False once the log is at its end.
bool LogStream::send_some(const std::string& task, bool past, std::string& bytes) {
  bool& is_done = is_done_.at(task);
  if (is_done) return false;
  std::uint64_t& offset = cursor_.offsets[task];
  const auto chunk =
      engine_->read_log(context_.folders.attempt(id_, cursor_.attempt), task, offset, kPiece);
  const std::string_view all = chunk.bytes;
  const bool is_last = all.size() < kPiece && (chunk.end || past);
  const std::string_view text = all.substr(0, sendable(all, kPiece, is_last));
  is_done = is_last && text.size() == all.size() && (chunk.end || all.empty());
  if (text.empty()) return !is_done;
  std::string json = "{\"task\":";
  append_text(json, task);
  json += fmt::format(",\"attempt\":{},\"offset\":{},\"text\":", cursor_.attempt, offset);
  append_text(json, text);
  json += '}';
  offset += text.size();
  add_event(bytes, "log", to_text(cursor_), json);
  return true;
}

BodyStream::Then LogStream::pause(bool sent) {
  poll_ = sent ? kSoon : std::min(2 * poll_, kLater);
  return Then::wait(poll_);
}

}  // namespace cohort::service

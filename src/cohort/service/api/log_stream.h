#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cohort/service/api/api_context.h"
#include "cohort/service/api/log_cursor.h"
#include "cohort/service/api/sse_stream.h"

namespace cohort::service {

struct LogQuery {
  std::vector<std::string> tasks;     // empty: all
  std::optional<Millis> since;        // not what was written before
  std::optional<std::uint64_t> tail;  // of each task's log, of the newest attempt on
  std::optional<LogCursor> after;     // the others do not count then
};

// The logs of a job's tasks as server-sent events, attempt by attempt, until the job has ended:
// pulled from the engine when the reader has taken what came before, so a slow reader loses nothing
// and costs no memory. Tasks of an attempt take turns.
class LogStream : public SseStream {
 public:
  LogStream(ApiContext& context, const JobRow& job, LogQuery query);

 private:
  Then fill(std::string& bytes) override;
  int first_attempt(const JobRow& job) const;
  bool begin_tasks(const std::vector<std::string>& names);
  std::vector<std::string> wanted_tasks() const;
  bool send_some(const std::string& task, bool past, std::string& bytes);
  Then pause(bool sent);

  ApiContext& context_;
  std::string id_;
  const engine::Engine* engine_;
  LogQuery query_;
  LogCursor cursor_;
  std::map<std::string, bool> is_done_;  // by task of the attempt that is followed
  std::size_t turn_ = 0;
  std::chrono::milliseconds poll_;
};

}  // namespace cohort::service

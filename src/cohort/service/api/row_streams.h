#pragma once

#include <string>

#include "cohort/service/api/api_context.h"
#include "cohort/service/api/sse_stream.h"

// Rows of the run store as server-sent events, read a page at a time when the last one was taken.
namespace cohort::service {

// Events behind `after`, without end. `job` and `user` "": of all.
class EventStream : public SseStream {
 public:
  EventStream(ApiContext& context, std::string job, std::string user, std::int64_t after);

 private:
  Then fill(std::string& bytes) override;

  ApiContext& context_;
  std::string job_;
  std::string user_;
  std::int64_t after_;
};

// Metrics of a job behind `after`, until it has ended and its last ones were collected.
class MetricStream : public SseStream {
 public:
  MetricStream(ApiContext& context, std::string job, std::string name, std::int64_t after);

 private:
  Then fill(std::string& bytes) override;

  ApiContext& context_;
  std::string job_;
  std::string name_;
  std::int64_t after_;
};

}  // namespace cohort::service

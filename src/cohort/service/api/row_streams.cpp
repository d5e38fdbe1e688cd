#include "cohort/service/api/row_streams.h"

#include <nlohmann/json.hpp>

#include "cohort/service/api/json_rows.h"

namespace cohort::service {
namespace {

constexpr int kRows = 200;  // a page: some 64 KiB
constexpr std::chrono::milliseconds kRowsPoll{200};

}  // namespace

EventStream::EventStream(ApiContext& context, std::string job, std::string user, std::int64_t after)
    : SseStream(context.touch),
      context_(context),
      job_(std::move(job)),
      user_(std::move(user)),
      after_(after) {}

BodyStream::Then EventStream::fill(std::string& bytes) {
  const auto rows = context_.store.events_after(after_, job_, user_, kRows);
  for (const EventRow& row : rows) {
    add_event(bytes, "job", std::to_string(row.id), dumped(event_json(row)));
    after_ = row.id;
  }
  return rows.size() == kRows ? Then::more() : Then::wait(kRowsPoll);
}

MetricStream::MetricStream(ApiContext& context, std::string job, std::string name,
                           std::int64_t after)
    : SseStream(context.touch),
      context_(context),
      job_(std::move(job)),
      name_(std::move(name)),
      after_(after) {}

BodyStream::Then MetricStream::fill(std::string& bytes) {
  const auto job = context_.store.find_job(job_);
  const auto rows = context_.store.metrics(job_, name_, after_, kRows);
  for (const MetricRow& row : rows) {
    add_event(bytes, "metric", std::to_string(row.id), dumped(metric_json(row)));
    after_ = row.id;
  }
  if (rows.size() == kRows) return Then::more();
  const bool is_over = !job || (has_ended(job->state) && job->collected >= job->attempt);
  if (!is_over || !rows.empty()) return Then::wait(kRowsPoll);
  const JobRow gone{.state = JobState::stopped, .reason = "the job was deleted"};
  add_event(bytes, "end", "", dumped(end_json(job ? *job : gone)));
  return Then::end();
}

}  // namespace cohort::service

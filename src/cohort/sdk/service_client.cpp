#include "cohort/sdk/service_client.h"

#include <fmt/format.h>

#include <deque>
#include <nlohmann/json.hpp>

#include "cohort/base/crypto/secret.h"
#include "cohort/base/error.h"
#include "cohort/base/net/http_client.h"
#include "cohort/base/text.h"
#include "cohort/jobspec/source/source_package.h"
#include "cohort/jobspec/spec_json.h"
#include "cohort/sdk/service_calls.h"
#include "cohort/sdk/service_values_json.h"

namespace cohort::sdk {
namespace {

// {"spec": ..., "request_id": ...}
std::string submission(const jobspec::JobSpec& spec, const std::string& request_id) {
  const std::string id = request_id.empty() ? "" : fmt::format(R"(,"request_id":"{}")", request_id);
  return fmt::format(R"({{"spec":{}{}}})", jobspec::to_json(spec), id);
}

std::string text_or_empty(std::int64_t number) { return number == 0 ? "" : std::to_string(number); }

// The last lines of a text that comes in pieces.
class LastLines {
 public:
  explicit LastLines(std::optional<int> most) : most_(static_cast<std::size_t>(most.value_or(0))) {}

  void add(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t end = std::min(bytes.find('\n'), bytes.size() - 1) + 1;
      if (lines_.empty() || lines_.back().ends_with('\n')) lines_.emplace_back();
      lines_.back() += bytes.substr(0, end);
      bytes.remove_prefix(end);
      if (lines_.size() > most_) lines_.pop_front();
    }
  }
  std::string text() const {
    std::string all;
    for (const auto& line : lines_) all += line;
    return all;
  }

 private:
  std::size_t most_;
  std::deque<std::string> lines_;
};

}  // namespace

struct ServiceClient::State {
  ServiceCalls calls;

  void send_source(jobspec::JobSpec& spec) const {
    if (spec.source_dir.empty() || !spec.source.empty()) return;
    const jobspec::PackedSource packed = jobspec::pack_source(spec.source_dir);
    spec.source = packed.id;
    spec.source_dir.clear();
    const std::string place = target({"v1", "sources", packed.id});
    try {
      calls.repeatable({.method = "HEAD", .target = place});
      return;
    } catch (const InvalidInput&) {  // 404: not there yet
    }
    calls.repeatable({.method = "PUT",
                      .target = place,
                      .headers = {{"Content-Type", "application/gzip"}},
                      .body = packed.archive});
  }
};

ServiceClient::ServiceClient(ServiceAddress address, const HttpCancel* cancel)
    : state_(new State{ServiceCalls(std::move(address), cancel)}) {}
ServiceClient::~ServiceClient() = default;
ServiceClient::ServiceClient(ServiceClient&&) noexcept = default;

const ServiceAddress& ServiceClient::address() const { return state_->calls.address(); }

ServiceInfo ServiceClient::service() {
  return service_from_json(state_->calls.get(target({"v1", "service"})));
}

CheckedJob ServiceClient::check(const jobspec::JobSpec& spec) {
  return checked_from_json(
      state_->calls.post(target({"v1", "jobs", "check"}), submission(spec, "")));
}

Job ServiceClient::submit(jobspec::JobSpec spec) {
  state_->send_source(spec);
  return job_from_json(state_->calls
                           .repeatable({.method = "POST",
                                        .target = target({"v1", "jobs"}),
                                        .headers = {{"Content-Type", "application/json"}},
                                        .body = submission(spec, Secret::generate().to_text())})
                           .body);
}

JobPage ServiceClient::jobs(const JobQuery& query) {
  return job_page_from_json(
      state_->calls.get(target({"v1", "jobs"}, {{"state", join(query.states, ",")},
                                                {"user", query.user},
                                                {"queue", query.queue},
                                                {"name", query.name},
                                                {"tag", query.tag},
                                                {"before", query.before},
                                                {"limit", std::to_string(query.limit)}})));
}

Job ServiceClient::job(const std::string& job) {
  return job_from_json(state_->calls.get(target({"v1", "jobs", job})));
}

Job ServiceClient::stop(const std::string& job) {
  return job_from_json(state_->calls.post(target({"v1", "jobs", job, "stop"})));
}

Job ServiceClient::resume(const std::string& job) {
  return job_from_json(state_->calls.post(target({"v1", "jobs", job, "resume"})));
}

Job ServiceClient::scale(const std::string& job, int workers) {
  return job_from_json(state_->calls.post(target({"v1", "jobs", job, "scale"}),
                                          fmt::format(R"({{"workers":{}}})", workers)));
}

Job ServiceClient::pin(const std::string& job, bool pinned) {
  return job_from_json(state_->calls.post(target({"v1", "jobs", job, "pin"}),
                                          fmt::format(R"({{"pinned":{}}})", pinned)));
}

void ServiceClient::remove(const std::string& job) {
  state_->calls.remove(target({"v1", "jobs", job}));
}

std::vector<JobTask> ServiceClient::tasks(const std::string& job, int attempt) {
  return tasks_from_json(state_->calls.get(
      target({"v1", "jobs", job, "tasks"}, {{"attempt", text_or_empty(attempt)}})));
}

LogPage ServiceClient::log(const std::string& job, const std::string& task, int attempt,
                           std::optional<std::uint64_t> offset, const std::string& since) {
  constexpr const char* kMostBytes = "1048576";
  const HttpReply reply =
      state_->calls.repeatable({.target = target({"v1", "jobs", job, "logs"},
                                                 {{"task", task},
                                                  {"attempt", text_or_empty(attempt)},
                                                  {"offset", offset ? std::to_string(*offset) : ""},
                                                  {"since", offset ? "" : since},
                                                  {"limit", kMostBytes}})});
  const std::string* next = find_header(reply.headers, "cohort-next-offset");
  const std::string* end = find_header(reply.headers, "cohort-log-end");
  const auto next_offset = next ? parse_unsigned(*next) : std::nullopt;
  if (!next_offset)
    throw ProtocolError("the service's answer with a part of a log does not say where it ends");
  return {.bytes = reply.body, .next_offset = *next_offset, .at_end = end && *end == "true"};
}

void ServiceClient::read_logs(const std::string& job, const LogQuery& query, int attempt,
                              const std::function<void(const LogText&)>& take) {
  std::vector<std::string> names = query.tasks;
  if (names.empty())
    for (const auto& task : tasks(job, attempt)) names.push_back(task.name);
  for (const auto& name : names) {
    LastLines last(query.tail);
    std::optional<std::uint64_t> offset;
    while (true) {
      LogPage page = log(job, name, attempt, offset, query.since);
      offset = page.next_offset;
      if (page.bytes.empty()) break;
      LogText piece{.task = name, .attempt = attempt, .text = std::move(page.bytes)};
      if (query.tail)
        last.add(piece.text);
      else
        take(piece);
    }
    if (query.tail) take({.task = name, .attempt = attempt, .text = last.text()});
  }
}

JobEnd ServiceClient::follow_logs(const std::string& job, const LogQuery& query,
                                  const std::function<void(const LogText&)>& take,
                                  std::chrono::seconds patience) {
  JobEnd end;
  state_->calls.follow(target({"v1", "jobs", job, "logs", "stream"},
                              {{"task", join(query.tasks, ",")},
                               {"since", query.since},
                               {"tail", query.tail ? std::to_string(*query.tail) : ""},
                               {"after", query.after}}),
                       patience, [&](const SseEvent& event) {
                         if (event.name == "log") {
                           LogText piece = log_text_from_json(event.data);
                           piece.cursor = event.id;
                           take(piece);
                         }
                         if (event.name == "end") end = job_end_from_json(event.data);
                         return event.name != "end";
                       });
  return end;
}

std::vector<JobEvent> ServiceClient::events(const std::string& job, std::int64_t after) {
  std::vector<JobEvent> all;
  while (true) {
    EventPage page = event_page_from_json(state_->calls.get(target(
        {"v1", "events"}, {{"job", job}, {"after", text_or_empty(after)}, {"limit", "1000"}})));
    if (page.events.empty()) return all;
    after = page.events.back().id;
    std::move(page.events.begin(), page.events.end(), std::back_inserter(all));
  }
}

void ServiceClient::follow_events(const std::string& job, std::int64_t after,
                                  const std::function<bool(const JobEvent&)>& take,
                                  std::chrono::seconds patience) {
  state_->calls.follow(target({"v1", "events"}, {{"job", job}, {"after", text_or_empty(after)}}),
                       patience, [&](const SseEvent& event) {
                         return event.name != "job" || take(event_from_json(event.data));
                       });
}

std::vector<Metric> ServiceClient::metrics(const std::string& job, const std::string& name) {
  std::vector<Metric> all;
  std::int64_t after = 0;
  while (true) {
    MetricPage page = metric_page_from_json(state_->calls.get(
        target({"v1", "jobs", job, "metrics"},
               {{"name", name}, {"after", text_or_empty(after)}, {"limit", "10000"}})));
    if (page.metrics.empty()) return all;
    after = page.metrics.back().id;
    std::move(page.metrics.begin(), page.metrics.end(), std::back_inserter(all));
  }
}

std::vector<JobFile> ServiceClient::files(const std::string& job) {
  return files_from_json(state_->calls.get(target({"v1", "jobs", job, "files"})));
}

void ServiceClient::file(const std::string& job, const std::string& path, const Sink& take) {
  const auto next = state_->calls.body_of(target({"v1", "jobs", job, "files", path}));
  for (std::string bytes; !(bytes = next()).empty();) take(bytes);
}

std::function<std::string()> ServiceClient::archive(const std::string& job,
                                                    const std::string& part) {
  return state_->calls.body_of(target({"v1", "jobs", job, "archive"}, {{"part", part}}));
}

std::string ServiceClient::sign_in_path() {
  return text_from_json(state_->calls.post(target({"v1", "links"})), "path");
}

std::string ServiceClient::page_address() {
  return text_from_json(state_->calls.post(target({"v1", "listener"})), "address");
}

std::vector<TokenInfo> ServiceClient::tokens() {
  return tokens_from_json(state_->calls.get(target({"v1", "tokens"})));
}

TokenInfo ServiceClient::add_token(const std::string& user, const std::string& role, int days) {
  const nlohmann::json body = {{"user", user}, {"role", role}, {"days", days}};
  return token_from_json(state_->calls.post(target({"v1", "tokens"}), body.dump()));
}

TokenInfo ServiceClient::rotate_token(const std::string& id) {
  return token_from_json(state_->calls.post(target({"v1", "tokens", id, "rotate"})));
}

void ServiceClient::remove_token(const std::string& id) {
  state_->calls.remove(target({"v1", "tokens", id}));
}

}  // namespace cohort::sdk

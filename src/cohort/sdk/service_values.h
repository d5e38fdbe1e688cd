#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

// What a service tells about jobs (docs/api.md). Values. Times are RFC 3339 in UTC, "" when not
// known.
namespace cohort::sdk {

struct JobAttempt {
  int number = 0;
  std::string state;
  std::optional<int> exit_code;
  std::string failure;
  int instances = 0;
  std::string created, started, ended;
};

struct JobTask {
  std::string name;  // "worker:1"
  std::string host;
  std::string state;
  std::optional<int> exit_code;
  int restarts = 0;
};

struct Job {
  std::string id;
  std::string name;
  std::string user;
  std::string queue;
  std::string engine;
  int priority = 0;
  std::string state;   // queued, starting, running, stopping, succeeded, failed, stopped
  std::string reason;  // why it waits, or why it failed
  bool pinned = false;
  int attempt = 0;
  int instances = 0;
  std::optional<int> exit_code;
  std::optional<double> progress;  // 0 to 1
  std::string eta;
  std::map<std::string, std::string> tags;
  std::string submitted, started, ended;

  // Where one job was asked for, else empty.
  std::vector<std::string> notes;
  std::vector<JobAttempt> attempts;
  std::vector<JobTask> tasks;
  std::string spec;  // JSON

  std::string json;  // all of it, as the service wrote it

  bool has_ended() const;
  // That of the job; 1 where it failed or was stopped and none is known.
  int shell_exit_code() const;
};

struct JobQuery {
  std::vector<std::string> states;  // empty: all
  std::string user, queue, name;    // "": all; name: a part of it
  std::string tag;                  // "key" or "key=value"
  std::string before;               // an id: the page behind it
  int limit = 100;
};

struct JobPage {
  std::vector<Job> jobs;  // newest first
  std::string next;       // `before` of the next page; "": this was the last
};

struct CheckedJob {
  std::string resolved;  // JSON
  std::vector<std::string> notes;
};

struct MachineSize {
  double cores = 0;
  std::uint64_t memory_bytes = 0;
  int gpus = 0;
};

struct ServiceInfo {
  std::string version, root, user, role, time;
  MachineSize machine, free;
  int queued = 0;
  int running = 0;
};

// Whole lines of a task's log, with their line ends.
struct LogText {
  std::string task;
  int attempt = 0;
  std::uint64_t offset = 0;
  std::string text;
  std::string cursor;  // LogQuery::after to go on behind it
};

struct LogPage {
  std::string bytes;
  std::uint64_t next_offset = 0;
  bool at_end = false;  // nothing more will come
};

struct LogQuery {
  std::vector<std::string> tasks;  // empty: all
  std::string since;               // RFC 3339, or seconds back; "": from the beginning
  std::optional<int> tail;         // lines of each task
  std::string after;               // a cursor: what follows it
};

struct JobEnd {
  std::string state;
  std::optional<int> exit_code;
  std::string reason;
};

struct JobEvent {
  std::int64_t id = 0;
  std::string time, job, kind;
  std::string data;  // JSON object
  std::string json;
};

struct Metric {
  std::int64_t id = 0;
  std::string name;
  std::int64_t step = 0;
  double value = 0;
  std::string time;
};

struct JobFile {
  std::string path;  // "model/..."
  std::uint64_t bytes = 0;
  std::string modified;
};

struct TokenInfo {
  std::string id, user, role, created, expires;
  std::string token;  // told once, when it is made
};

}  // namespace cohort::sdk

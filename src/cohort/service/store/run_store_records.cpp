// The run store's tables beside jobs: attempts, tasks, events, metrics, cursors, log marks.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cohort/service/store/run_store.h"
#include "cohort/service/store/store_schema.h"

namespace cohort::service {
namespace {

constexpr Millis kMarkInterval = 1000;
constexpr Millis kFullMarks = 3600 * kMarkInterval;  // so long, all of them

}  // namespace

void RunStore::put_attempt(const AttemptRow& attempt) {
  open_->database
      .prepare(
          "INSERT INTO attempts (job, number, state, exit_code, failure, instances, "
          "gpu_indices, created, started, ended, steady, boot) VALUES (?1, ?2, ?3, ?4, ?5, ?6, "
          "?7, ?8, ?9, ?10, ?11, ?12) ON CONFLICT (job, number) DO UPDATE SET state = "
          "excluded.state, "
          "exit_code = excluded.exit_code, failure = excluded.failure, "
          "instances = excluded.instances, gpu_indices = excluded.gpu_indices, "
          "created = excluded.created, started = excluded.started, ended = excluded.ended, "
          "steady = excluded.steady, boot = excluded.boot")
      .bind(attempt.job, attempt.number, attempt.state, attempt.exit_code, attempt.failure,
            attempt.instances, attempt.gpu_indices, attempt.created, attempt.started, attempt.ended,
            attempt.steady, attempt.boot)
      .run();
}

std::vector<AttemptRow> RunStore::attempts(std::string_view job) const {
  auto row = open_->database.prepare(
      "SELECT job, number, state, exit_code, failure, instances, gpu_indices, created, started, "
      "ended, steady, boot FROM attempts WHERE job = ?1 ORDER BY number");
  row.bind(job);
  std::vector<AttemptRow> attempts;
  while (row.step()) {
    auto& attempt = attempts.emplace_back();
    attempt.job = row.text(0);
    attempt.number = static_cast<int>(row.integer(1));
    attempt.state = row.text(2);
    if (!row.is_null(3)) attempt.exit_code = static_cast<int>(row.integer(3));
    attempt.failure = row.text(4);
    attempt.instances = static_cast<int>(row.integer(5));
    attempt.gpu_indices = row.text(6);
    attempt.created = row.integer(7);
    attempt.started = row.integer(8);
    attempt.ended = row.integer(9);
    attempt.steady = row.integer(10);
    attempt.boot = row.text(11);
  }
  return attempts;
}

void RunStore::put_tasks(std::string_view job, int attempt, const std::vector<TaskRow>& tasks) {
  Transaction transaction(open_->database);
  open_->database.prepare("DELETE FROM tasks WHERE job = ?1 AND attempt = ?2")
      .bind(job, attempt)
      .run();
  for (std::size_t place = 0; place < tasks.size(); ++place) {
    const TaskRow& task = tasks[place];
    open_->database
        .prepare(
            "INSERT INTO tasks (job, attempt, place, name, host, state, exit_code, restarts) "
            "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")
        .bind(job, attempt, place, task.name, task.host, task.state, task.exit_code, task.restarts)
        .run();
  }
  transaction.commit();
}

int RunStore::task_count(std::string_view job, int attempt) const {
  auto row = open_->database.prepare("SELECT count(*) FROM tasks WHERE job = ?1 AND attempt = ?2");
  row.bind(job, attempt);
  return row.step() ? static_cast<int>(row.integer(0)) : 0;
}

std::vector<TaskRow> RunStore::tasks(std::string_view job, int attempt) const {
  auto row = open_->database.prepare(
      "SELECT job, attempt, name, host, state, exit_code, restarts FROM tasks "
      "WHERE job = ?1 AND attempt = ?2 ORDER BY place");
  row.bind(job, attempt);
  std::vector<TaskRow> tasks;
  while (row.step()) {
    auto& task = tasks.emplace_back();
    task.job = row.text(0);
    task.attempt = static_cast<int>(row.integer(1));
    task.name = row.text(2);
    task.host = row.text(3);
    task.state = row.text(4);
    if (!row.is_null(5)) task.exit_code = static_cast<int>(row.integer(5));
    task.restarts = static_cast<int>(row.integer(6));
  }
  return tasks;
}

void RunStore::add_event(std::string_view job, std::string_view kind, std::string_view data) {
  open_->database
      .prepare(
          "INSERT INTO events (time, job, user, kind, data) VALUES (?1, ?2, "
          "coalesce((SELECT user FROM jobs WHERE id = ?2), ''), ?3, ?4)")
      .bind(utc_now(), job, kind, data)
      .run();
}

std::vector<EventRow> RunStore::events_after(std::int64_t id, std::string_view job,
                                             std::string_view user, int limit) const {
  // A text for each case: SQLite then takes the index that fits.
  auto row = open_->database.prepare(
      !job.empty()    ? "SELECT id, time, job, user, kind, data FROM events WHERE id > ?1 AND "
                        "job = ?2 AND (?3 = '' OR user = ?3) ORDER BY id LIMIT ?4"
      : !user.empty() ? "SELECT id, time, job, user, kind, data FROM events WHERE id > ?1 AND "
                        "?2 = '' AND user = ?3 ORDER BY id LIMIT ?4"
                      : "SELECT id, time, job, user, kind, data FROM events WHERE id > ?1 AND "
                        "?2 = ?3 ORDER BY id LIMIT ?4");
  row.bind(id, job, user, limit);
  std::vector<EventRow> events;
  while (row.step())
    events.push_back({.id = row.integer(0),
                      .time = row.integer(1),
                      .job = row.text(2),
                      .user = row.text(3),
                      .kind = row.text(4),
                      .data = row.text(5)});
  return events;
}

std::int64_t RunStore::last_event() const {
  auto row = open_->database.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'events'");
  return row.step() ? row.integer(0) : 0;
}

int RunStore::remove_old_events(Millis time) {
  open_->database.prepare("DELETE FROM events WHERE time < ?1 AND job NOT IN (SELECT id FROM jobs)")
      .bind(time)
      .run();
  return open_->database.changes();
}

void RunStore::add_metrics(const std::vector<MetricRow>& rows) {
  Transaction transaction(open_->database);
  for (const auto& row : rows)
    open_->database
        .prepare("INSERT INTO metrics (job, name, step, value, time) VALUES (?1, ?2, ?3, ?4, ?5)")
        .bind(row.job, row.name, row.step, row.value, row.time)
        .run();
  transaction.commit();
}

std::vector<MetricRow> RunStore::metrics(std::string_view job, std::string_view name,
                                         std::int64_t after, int limit) const {
  auto row = open_->database.prepare(
      name.empty() ? "SELECT id, job, name, step, value, time FROM metrics WHERE job = ?1 AND "
                     "?2 = '' AND id > ?3 ORDER BY id LIMIT ?4"
                   : "SELECT id, job, name, step, value, time FROM metrics WHERE job = ?1 AND "
                     "name = ?2 AND id > ?3 ORDER BY id LIMIT ?4");
  row.bind(job, name, after, limit);
  std::vector<MetricRow> metrics;
  while (row.step())
    // SQLite keeps NaN as NULL.
    metrics.push_back(
        {.id = row.integer(0),
         .job = row.text(1),
         .name = row.text(2),
         .step = row.integer(3),
         .value = row.is_null(4) ? std::numeric_limits<double>::quiet_NaN() : row.number(4),
         .time = row.integer(5)});
  return metrics;
}

std::vector<std::string> RunStore::metric_names(std::string_view job) const {
  // From name to name along the index, however many values each has.
  auto row = open_->database.prepare(
      "WITH RECURSIVE names (name) AS (SELECT min(name) FROM metrics WHERE job = ?1 UNION ALL "
      "SELECT (SELECT min(name) FROM metrics WHERE job = ?1 AND name > names.name) FROM names "
      "WHERE names.name IS NOT NULL) SELECT name FROM names WHERE name IS NOT NULL");
  row.bind(job);
  std::vector<std::string> names;
  while (row.step()) names.push_back(row.text(0));
  return names;
}

std::int64_t RunStore::metric_count(std::string_view job) const {
  auto row = open_->database.prepare("SELECT count(*) FROM metrics WHERE job = ?1");
  row.bind(job);
  return row.step() ? row.integer(0) : 0;
}

void RunStore::put_cursor(const CursorRow& cursor) {
  open_->database
      .prepare(
          "INSERT INTO cursors (job, source, position, state) VALUES (?1, ?2, ?3, ?4) "
          "ON CONFLICT (job, source) DO UPDATE SET position = excluded.position, "
          "state = excluded.state")
      .bind(cursor.job, cursor.source, cursor.position, cursor.state)
      .run();
}

CursorRow RunStore::cursor(std::string_view job, std::string_view source) const {
  auto row =
      open_->database.prepare("SELECT position, state FROM cursors WHERE job = ?1 AND source = ?2");
  row.bind(job, source);
  CursorRow cursor{.job = std::string(job), .source = std::string(source)};
  if (row.step()) {
    cursor.position = row.integer(0);
    cursor.state = row.text(1);
  }
  return cursor;
}

void RunStore::add_log_mark(std::string_view job, int attempt, std::string_view task, Millis time,
                            std::uint64_t offset) {
  Transaction transaction(open_->database);
  {
    auto row = open_->database.prepare(
        "SELECT (SELECT min(time) FROM log_marks WHERE job = ?1 AND attempt = ?2 AND task = ?3), "
        "(SELECT max(time) FROM log_marks WHERE job = ?1 AND attempt = ?2 AND task = ?3)");
    row.bind(job, attempt, task);
    if (row.step() && !row.is_null(0)) {
      const Millis age = time - row.integer(0);
      const Millis interval = std::max(kMarkInterval, age * kMarkInterval / kFullMarks);
      if (time - row.integer(1) < interval) return;
    }
  }
  open_->database
      .prepare(
          "INSERT INTO log_marks (job, attempt, task, time, position) "
          "VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING")
      .bind(job, attempt, task, time, offset)
      .run();
  transaction.commit();
}

std::uint64_t RunStore::log_offset_at(std::string_view job, int attempt, std::string_view task,
                                      Millis time) const {
  auto row = open_->database.prepare(
      "SELECT position FROM log_marks WHERE job = ?1 AND attempt = ?2 AND task = ?3 AND "
      "time <= ?4 ORDER BY time DESC LIMIT 1");
  row.bind(job, attempt, task, time);
  return row.step() ? static_cast<std::uint64_t>(row.integer(0)) : 0;
}

}  // namespace cohort::service

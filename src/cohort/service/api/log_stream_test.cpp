#include "cohort/service/api/log_stream.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/net/sse.h"
#include "cohort/service/api/row_streams.h"
#include "cohort/service/logs/log_tail.h"
#include "cohort/service/logs_engine_test.h"

namespace cohort::service {
namespace {

using Kind = BodyStream::Then::Kind;
using testing::ElementsAre;
using testing::IsEmpty;

class LogStreamTest : public testing::Test {
 protected:
  LogStreamTest() {
    job_.id = "20260101-000000-abc";
    job_.engine = "local";
    job_.user = "ada";
    job_.spec = job_.resolved = job_.tags = "{}";
    job_.submitted = 1;
    store().add_job(job_);
  }

  RunStore& store() { return operations_.store(); }

  void begin_attempt(int number, std::vector<std::string> tasks) {
    const JobState before = job_.state;
    job_.state = JobState::running;
    job_.attempt = number;
    ASSERT_TRUE(store().update_job(job_, before));
    store().put_attempt({.job = job_.id, .number = number, .state = "running", .created = 1});
    std::vector<TaskRow> rows;
    for (const std::string& task : tasks)
      rows.push_back({.job = job_.id, .attempt = number, .name = task, .state = "running"});
    store().put_tasks(job_.id, number, rows);
  }

  void end_job() {
    const JobState before = job_.state;
    job_.state = JobState::succeeded;
    job_.exit_code = 0;
    job_.ended = 1;
    ASSERT_TRUE(store().update_job(job_, before));
  }

  std::string& log(int attempt, const std::string& task) {
    return engine_.logs[std::to_string(attempt) + " " + task];
  }

  LogStream follow(LogQuery query = {}) { return LogStream(context_, job_, std::move(query)); }

  // What comes until the stream waits or ends: "1 worker:0 @0 text", or "end succeeded".
  std::vector<std::string> taken(SseStream& stream) {
    std::string bytes;
    while (stream.next(bytes).kind == Kind::more) {
    }
    reader_.feed(bytes);
    std::vector<std::string> events;
    while (auto event = reader_.next()) {
      const auto data = nlohmann::json::parse(event->data);
      last_id_ = event->id;
      if (event->name == "end") {
        events.push_back("end " + data["state"].get<std::string>());
        continue;
      }
      events.push_back(fmt::format("{} {} @{} {}", data["attempt"].get<int>(),
                                   data["task"].get<std::string>(), data["offset"].get<int>(),
                                   data["text"].get<std::string>()));
    }
    return events;
  }

  ScratchFolder root_;
  LogsEngine engine_;
  JobOperations operations_{RunFolders{root_.path()}, {}, [](std::string_view) {}};
  Background background_{1};
  ApiContext context_{.folders = RunFolders{root_.path()},
                      .operations = operations_,
                      .store = operations_.store(),
                      .tokens = Tokens(operations_.store()),
                      .sessions = Sessions(operations_.store()),
                      .background = background_,
                      .options = {},
                      .engine = [this](std::string_view) { return &engine_; },
                      .machine = {},
                      .free = {},
                      .line = {},
                      .readers = {},
                      .touch = [] {}};
  JobRow job_;
  SseReader reader_;
  std::string last_id_;
};

TEST_F(LogStreamTest, SendsWholeLinesOfAllTasksAndAtLastTheEnd) {
  LogStream stream = follow();
  EXPECT_THAT(taken(stream), IsEmpty());
  begin_attempt(1, {"worker:0", "worker:1"});
  log(1, "worker:0") = "one\ntw";
  log(1, "worker:1") = "uno\n";
  EXPECT_THAT(taken(stream), ElementsAre("1 worker:0 @0 one\n", "1 worker:1 @0 uno\n"));
  log(1, "worker:0") += "o\nthree";
  EXPECT_THAT(taken(stream), ElementsAre("1 worker:0 @4 two\n"));
  end_job();
  EXPECT_THAT(taken(stream), ElementsAre("1 worker:0 @8 three"));
  EXPECT_THAT(taken(stream), ElementsAre("end succeeded"));
}

TEST_F(LogStreamTest, GoesOnBehindItsCursorAndAcrossAttempts) {
  begin_attempt(1, {"worker:0", "worker:1"});
  log(1, "worker:0") = "a\n";
  LogStream first = follow();
  EXPECT_THAT(taken(first), ElementsAre("1 worker:0 @0 a\n"));
  log(1, "worker:0") += "b\n";
  log(1, "worker:1") = "c\n";
  begin_attempt(2, {"worker:0"});
  log(2, "worker:0") = "d\n";
  end_job();
  LogStream second = follow({.after = log_cursor_of(last_id_)});
  std::vector<std::string> all;
  while (all.empty() || all.back().compare(0, 3, "end") != 0)
    for (const std::string& event : taken(second)) all.push_back(event);
  EXPECT_THAT(all, ElementsAre("1 worker:0 @2 b\n", "1 worker:1 @0 c\n", "2 worker:0 @0 d\n",
                               "end succeeded"));
}

TEST_F(LogStreamTest, BeginsAtATimeOrAtTheLastLinesOfSomeTasks) {
  begin_attempt(1, {"worker:0", "worker:1"});
  log(1, "worker:0") = "a\nb\nc\n";
  log(1, "worker:1") = "x\ny\n";
  store().add_log_mark(job_.id, 1, "worker:0", 5000, 2);
  store().add_log_mark(job_.id, 1, "worker:1", 5000, 4);
  LogStream tail = follow({.tasks = {"worker:0"}, .tail = 1});
  EXPECT_THAT(taken(tail), ElementsAre("1 worker:0 @4 c\n"));
  LogStream since = follow({.since = 6000});
  EXPECT_THAT(taken(since), ElementsAre("1 worker:0 @2 b\nc\n"));
  // Who goes on later gets nothing of what was left out, though that task had sent nothing yet.
  log(1, "worker:1") += "z\n";
  LogStream again = follow({.after = log_cursor_of(last_id_)});
  EXPECT_THAT(taken(again), ElementsAre("1 worker:1 @4 z\n"));
}

TEST_F(LogStreamTest, CutsLongLinesBetweenCharacters) {
  begin_attempt(1, {"worker:0"});
  std::string& written = log(1, "worker:0");
  while (written.size() < 3 * BodyStream::kPiece) written += "\u20ac";
  written += "\n";
  LogStream stream = follow();
  std::string text;
  for (const std::string& event : taken(stream)) text += event.substr(event.find(' ', 13) + 1);
  EXPECT_EQ(text, written);
}

TEST_F(LogStreamTest, SendsAnyBytesAsTextOfJson) {
  begin_attempt(1, {"worker:0"});
  log(1, "worker:0") = std::string("\"q\" \\ \t\r \x1b[1m \x7f \0|\n", 19);
  LogStream stream = follow();
  EXPECT_THAT(taken(stream), ElementsAre("1 worker:0 @0 " + log(1, "worker:0")));
  log(1, "worker:0") += "\u00e9 \xff\n";
  EXPECT_THAT(taken(stream), ElementsAre("1 worker:0 @19 \u00e9 \ufffd\n"));
}

TEST_F(LogStreamTest, EventsGoOnBehindTheLastId) {
  EventStream all(context_, "", "", 0);
  std::string bytes;
  EXPECT_EQ(all.next(bytes).kind, Kind::wait);
  EXPECT_EQ(bytes.find("retry: 1000\n\n"), 0U);
  reader_.feed(bytes);
  const auto event = reader_.next();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->name, "job");
  EXPECT_EQ(nlohmann::json::parse(event->data)["kind"], "submitted");
  store().add_event(job_.id, "note", "{}");
  EventStream later(context_, job_.id, "ada", std::stoll(event->id));
  bytes.clear();
  later.next(bytes);
  reader_.feed(bytes);
  EXPECT_EQ(nlohmann::json::parse(reader_.next()->data)["kind"], "note");
  EventStream others(context_, "", "bob", 0);
  bytes.clear();
  others.next(bytes);
  EXPECT_EQ(bytes, "retry: 1000\n\n");
}

TEST_F(LogStreamTest, MetricsEndWithTheJob) {
  store().add_metrics({{.job = job_.id, .name = "loss", .step = 1, .value = 0.5, .time = 7},
                       {.job = job_.id, .name = "loss", .step = 2, .value = NAN, .time = 8}});
  MetricStream stream(context_, job_.id, "", 0);
  std::string bytes;
  EXPECT_EQ(stream.next(bytes).kind, Kind::wait);
  reader_.feed(bytes);
  EXPECT_EQ(nlohmann::json::parse(reader_.next()->data)["value"], 0.5);
  EXPECT_TRUE(nlohmann::json::parse(reader_.next()->data)["value"].is_null());
  end_job();
  bytes.clear();
  EXPECT_EQ(stream.next(bytes).kind, Kind::end);
  reader_.feed(bytes);
  EXPECT_EQ(reader_.next()->name, "end");
}

TEST(LogCursor, IsTheSameAsTextAgain) {
  const LogCursor cursor{2, {{"worker:0", 4711}, {"ps:0", 1}}};
  EXPECT_EQ(to_text(cursor), "2;ps:0=1;worker:0=4711");
  EXPECT_EQ(log_cursor_of(to_text(cursor)), cursor);
  EXPECT_EQ(log_cursor_of("0"), LogCursor{});
  for (const char* wrong :
       {"", "x", "-1", "1;", "1;a", "1;a=", "1;=3", "1;a=x", "1;a=-2", "1;a=99999999999999999999"})
    EXPECT_FALSE(log_cursor_of(wrong)) << wrong;
}

TEST(LogTail, BeginsWhereTheLastLinesDo) {
  std::string text;
  const ReadLog read = [&text](std::uint64_t offset, std::size_t most) {
    return offset < text.size() ? text.substr(offset, most) : std::string();
  };
  EXPECT_EQ(offset_of_tail(read, 3), 0U);
  text = "a\nbb\nccc\n";
  EXPECT_EQ(offset_of_tail(read, 0), 9U);
  EXPECT_EQ(offset_of_tail(read, 1), 5U);
  EXPECT_EQ(offset_of_tail(read, 2), 2U);
  EXPECT_EQ(offset_of_tail(read, 3), 0U);
  EXPECT_EQ(offset_of_tail(read, 9), 0U);
  text += "d";
  EXPECT_EQ(offset_of_tail(read, 1), 9U);
  text.clear();
  for (int i = 0; i < 100'000; ++i) text += std::to_string(i) + "\n";
  EXPECT_EQ(text.substr(offset_of_tail(read, 50'000)).substr(0, 6), "50000\n");
  constexpr std::size_t kMost = std::size_t{16}
                                << 20;  // a line without an end is not sought for ever
  text.assign(2 * kMost, 'x');
  EXPECT_EQ(offset_of_tail(read, 1), kMost);
}

}  // namespace
}  // namespace cohort::service

#include "cohort/report/trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"

namespace cohort::report {
namespace {

using nlohmann::json;

std::vector<json> events(const TraceRecorder& recorder, const std::string& phase) {
  std::vector<json> found;
  json file = json::parse(recorder.to_json());
  for (const auto& event : file["traceEvents"])
    if (event["ph"] == phase) found.push_back(event);
  return found;
}

TEST(TraceRecorder, SpansInstantsAndCountersComeBackFromTheFile) {
  TraceRecorder recorder({.rank = 3, .process_name = "worker/3 \"x\""});
  recorder.name_thread("main");
  recorder.complete("step", "train", 1'000'001, 3'500'000, {"number", 17});
  recorder.instant("checkpoint", "train");
  recorder.counter("loss", 0.25);
  auto spans = events(recorder, "X");
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0]["name"], "step");
  EXPECT_EQ(spans[0]["cat"], "train");
  EXPECT_EQ(spans[0]["pid"], 3);
  EXPECT_EQ(spans[0]["ts"], 1000.001);
  EXPECT_EQ(spans[0]["dur"], 2499.999);
  EXPECT_EQ(spans[0]["args"]["number"], 17);
  EXPECT_EQ(events(recorder, "i").at(0)["name"], "checkpoint");
  EXPECT_EQ(events(recorder, "C").at(0)["args"]["value"], 0.25);
  std::map<std::string, json> names;
  for (const auto& event : events(recorder, "M")) names[event["name"]] = event;
  EXPECT_EQ(names["process_name"]["args"]["name"], "worker/3 \"x\"");
  EXPECT_EQ(names["thread_name"]["args"]["name"], "main");
  EXPECT_EQ(names["thread_name"]["tid"], spans[0]["tid"]);
}

TEST(TraceRecorder, ASpanMeasuresItsScopeAndNothingWithoutARecorder) {
  TraceRecorder recorder;
  {
    Span outer(&recorder, "outer", "test");
    Span inner(&recorder, "inner", "test");
    inner.end();
    Span nothing(nullptr, "nothing", "test");
  }
  auto spans = events(recorder, "X");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0]["name"], "inner");
  EXPECT_LE(spans[1]["ts"], spans[0]["ts"]);
  EXPECT_GE(spans[1]["ts"].get<double>() + spans[1]["dur"].get<double>(),
            spans[0]["ts"].get<double>() + spans[0]["dur"].get<double>());
}

TEST(TraceRecorder, EventsPastTheLimitAreCountedAndSaid) {
  TraceRecorder recorder({.max_events = 10});
  for (int i = 0; i < 25; ++i) recorder.instant("tick", "test");
  EXPECT_EQ(recorder.dropped(), 15u);
  EXPECT_EQ(events(recorder, "i").size(), 10u);
  EXPECT_EQ(json::parse(recorder.to_json())["otherData"]["dropped_events"], 15);
}

TEST(TraceRecorder, ThreadsRecordWhileTheFileIsWritten) {
  TraceRecorder recorder({.max_events = 4000});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      recorder.name_thread(fmt::format("thread {}", t));
      const char* name = recorder.intern(fmt::format("work {}", t % 2));
      for (int i = 0; i < 1000; ++i) Span span(&recorder, name, "test");
    });
  EXPECT_NO_THROW(events(recorder, "X"));
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(events(recorder, "X").size(), 4000u);
  EXPECT_EQ(recorder.dropped(), 0u);
}

TEST(TraceRecorder, NumbersThatAreNotFiniteDoNotBreakTheFile) {
  TraceRecorder recorder;
  recorder.counter("loss", NAN);
  EXPECT_TRUE(events(recorder, "C").at(0)["args"]["value"].is_null());
}

TEST(TraceRecorder, TheFileIsNamedAfterTheRank) {
  ScratchFolder folder;
  TraceRecorder recorder({.rank = 7});
  recorder.set_clock_offset_us(-42);
  auto path = recorder.write(folder / "traces");
  EXPECT_EQ(path, folder / "traces/trace-rank7.json");
  json about = json::parse(read_file(path))["otherData"];
  EXPECT_EQ(about["rank"], 7);
  EXPECT_EQ(about["clock_offset_us"], -42);
  write_file_atomically(folder / "file", "");
  EXPECT_THROW(recorder.write(folder / "file/x"), SystemError);
}

}  // namespace
}  // namespace cohort::report

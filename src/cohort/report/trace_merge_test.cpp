#include "cohort/report/trace_merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/report/trace.h"

namespace cohort::report {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST(MergeTraces, ClocksOfAllRanksBecomeThatOfRank0) {
  ScratchFolder folder;
  // One collective, seen by two ranks; rank 1's clock is 5 s ahead of rank 0's.
  TraceRecorder zero({.rank = 0, .max_events = 2}), one({.rank = 1, .clock_offset_us = -5'000'000});
  zero.complete("all_reduce", "collective", 100'000'000, 101'000'000);
  zero.complete("step", "train", 99'000'000, 102'000'000);
  zero.instant("dropped", "test");
  one.complete("all_reduce", "collective", 5'100'000'500, 5'101'000'000);
  merge_traces({one.write(folder.path()), zero.write(folder.path())}, folder / "trace.json");

  json merged = json::parse(read_file(folder / "trace.json"));
  EXPECT_EQ(merged["otherData"]["dropped_events"], 1);
  EXPECT_EQ(merged["otherData"]["ranks"], 2);
  std::map<std::pair<int, std::string>, json> spans;
  std::vector<int> processes;
  for (const auto& event : merged["traceEvents"]) {
    if (event["ph"] == "X") spans[{event["pid"], event["name"]}] = event;
    if (event["name"] == "process_name") processes.push_back(event["pid"]);
  }
  EXPECT_EQ((spans[{0, "step"}]["ts"]), 0);
  EXPECT_EQ((spans[{0, "all_reduce"}]["ts"]), 1000);
  EXPECT_EQ((spans[{1, "all_reduce"}]["ts"]), 1000.5);
  EXPECT_EQ((spans[{1, "all_reduce"}]["dur"]), 999.5);
  EXPECT_EQ(processes, (std::vector<int>{0, 1}));
}

TEST(MergeTraces, WhatIsNoTraceOfARankIsRefusedByName) {
  ScratchFolder folder;
  auto good = TraceRecorder({.rank = 0}).write(folder.path());
  auto merge_with = [&](const std::string& text) {
    write_file_atomically(folder / "bad.json", text);
    return message_of<InvalidInput>([&] {
      merge_traces({good, folder / "bad.json"}, folder / "out.json");
    });
  };
  EXPECT_THAT(merge_with("{\"traceEvents\": ["), HasSubstr("bad.json"));
  EXPECT_THAT(merge_with("[]"), HasSubstr("bad.json"));
  EXPECT_THAT(merge_with(read_file(good)), HasSubstr("second trace of rank 0"));
  EXPECT_THROW(merge_traces({}, folder / "out.json"), InvalidInput);
  EXPECT_THROW(merge_traces({folder / "missing.json"}, folder / "out.json"), SystemError);
  EXPECT_FALSE(std::filesystem::exists(folder / "out.json"));
}

}  // namespace
}  // namespace cohort::report

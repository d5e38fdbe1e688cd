#include "cohort/report/trace_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"

namespace cohort::report {
namespace {

using nlohmann::json;

struct RankTrace {
  int rank;
  double clock_offset_us;
  std::uint64_t dropped;
  json events;
};

RankTrace read_trace(const std::filesystem::path& path) {
  std::string text = read_file(path);
  try {
    json file = json::parse(text);
    const json& about = file.at("otherData");
    json& events = file.at("traceEvents");
    for (const json& event : events)
      if (event.at("ph") != "M") event.at("ts").get<double>();
    return {.rank = about.at("rank"),
            .clock_offset_us = about.at("clock_offset_us"),
            .dropped = about.at("dropped_events"),
            .events = std::move(events)};
  } catch (const json::exception& error) {
    throw InvalidInput(
        fmt::format("'{}' is not the trace of a rank: {}", path.string(), error.what()),
        {.advice = "Merge files named trace-rankN.json that Cohort wrote whole."});
  }
}

}  // namespace

void merge_traces(const std::vector<std::filesystem::path>& files,
                  const std::filesystem::path& out) {
  if (files.empty()) throw InvalidInput("there is no trace to merge");
  std::map<int, RankTrace> traces;
  double earliest = std::numeric_limits<double>::infinity();
  for (const auto& path : files) {
    RankTrace trace = read_trace(path);
    for (json& event : trace.events) {
      if (event["ph"] == "M") continue;
      double time = event["ts"].get<double>() + trace.clock_offset_us;
      event["ts"] = time;
      earliest = std::min(earliest, time);
    }
    int rank = trace.rank;
    if (!traces.emplace(rank, std::move(trace)).second)
      throw InvalidInput(fmt::format("'{}' is a second trace of rank {}", path.string(), rank),
                         {.advice = "Merge the traces of one run only."});
  }
  std::uint64_t dropped = 0;
  std::string events;
  for (auto& [rank, trace] : traces) {
    dropped += trace.dropped;
    for (json& event : trace.events) {
      if (event["ph"] != "M")  // to the nanosecond, without the digits that subtraction brings
        event["ts"] = std::round((event["ts"].get<double>() - earliest) * 1000) / 1000;
      events += (events.empty() ? "" : ",\n") + event.dump();
    }
  }
  json about{{"ranks", traces.size()}, {"dropped_events", dropped}};
  write_file_atomically(out, fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\n"
                                         "\"traceEvents\":[\n{}\n]}}\n",
                                         about.dump(), events));
}

}  // namespace cohort::report

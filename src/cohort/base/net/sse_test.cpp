#include "cohort/base/net/sse.h"

#include <gtest/gtest.h>

#include <vector>

#include "cohort/base/error.h"

namespace cohort {
namespace {

std::vector<std::string> events_of(SseReader& reader, std::string_view text, std::size_t step) {
  std::vector<std::string> found;
  for (std::size_t at = 0; at < text.size(); at += step) {
    reader.feed(text.substr(at, step));
    while (auto event = reader.next())
      found.push_back(event->name + "|" + event->id + "|" + event->data);
  }
  return found;
}

TEST(Sse, ReadsEventsInAnyPieces) {
  const std::string text =
      "\xEF\xBB\xBF: a comment\nretry: 1500\n\n"
      "event: log\nid: 7\ndata: one\ndata:two\ndata\n\n"
      "data: still 7\r\n\r\n"
      "id\rdata:  x\r\r"
      "event: none without data\n\n"
      "unknown: 1\nretry: soon\nid: 9\n\n"
      "data: last\n\ndata: without an end\n";
  const std::vector<std::string> expected{"log|7|one\ntwo\n", "message|7|still 7", "message|| x",
                                          "message|9|last"};
  for (std::size_t step = 1; step <= text.size(); ++step) {
    SseReader reader;
    EXPECT_EQ(events_of(reader, text, step), expected) << "in pieces of " << step;
    EXPECT_EQ(reader.last_id(), "9");
    EXPECT_EQ(reader.retry(), std::chrono::milliseconds(1500));
  }
}

TEST(Sse, AnEventWithoutAnEndIsRefused) {
  for (const char* text : {"data: x\n", "data: xxxxxxxxxxxx"}) {
    SseReader reader(1000);
    EXPECT_THROW(
        for (int i = 0; i < 10'000; ++i) {
          reader.feed(text);
          reader.next();
        },
        ProtocolError);
  }
}

TEST(Sse, WhatIsWrittenIsRead) {
  SseReader reader;
  EXPECT_EQ(events_of(reader, to_sse("log", "3", "a\nb\r\n\nc") + to_sse("end", "", ""), 4),
            (std::vector<std::string>{"log|3|a\nb\n\nc", "end|3|"}));
}

}  // namespace
}  // namespace cohort

#include "cohort/train/checkpoint/background_slot.h"

#include <gtest/gtest.h>

#include <future>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort::train {
namespace {

using namespace std::chrono_literals;

TEST(BackgroundSlot, JobsRunOneAfterTheOther) {
  BackgroundSlot slot;
  int running = 0, done = 0;
  for (int i = 0; i < 100; ++i)
    slot.submit(
        [&](std::stop_token) {
          EXPECT_EQ(++running, 1);
          --running;
          ++done;
        },
        Deadline::never());
  slot.flush(Deadline::never());
  EXPECT_EQ(done, 100);
  slot.close(Deadline::never());
}

TEST(BackgroundSlot, TheNextJobWaitsUntilItsDeadline) {
  BackgroundSlot slot;
  std::promise<void> release;
  slot.submit([&](std::stop_token) { release.get_future().wait(); }, Deadline::never());
  bool taken = false;
  EXPECT_THROW(slot.submit([&](std::stop_token) { taken = true; }, Deadline::after(10ms)),
               TimeoutError);
  EXPECT_THROW(slot.close(Deadline::after(10ms)), TimeoutError);
  release.set_value();
  slot.close(Deadline::never());
  EXPECT_FALSE(taken);
}

TEST(BackgroundSlot, AnErrorIsThrownOnceByTheNextCall) {
  BackgroundSlot slot;
  slot.submit([](std::stop_token) { throw Error("disk full"); }, Deadline::never());
  EXPECT_EQ(message_of<Error>([&] { slot.submit([](std::stop_token) {}, Deadline::never()); }),
            "disk full");
  slot.flush(Deadline::never());
  slot.submit([](std::stop_token) { throw Error("again"); }, Deadline::never());
  EXPECT_EQ(message_of<Error>([&] { slot.close(Deadline::never()); }), "again");
  slot.close(Deadline::never());
}

TEST(BackgroundSlot, AbandonEndsAJobThatListens) {
  BackgroundSlot slot;
  slot.submit(
      [](std::stop_token stop) {
        while (!stop.stop_requested()) std::this_thread::yield();
        throw Error("given up");
      },
      Deadline::never());
  auto error = slot.abandon();
  EXPECT_EQ(message_of<Error>([&] { std::rethrow_exception(error); }), "given up");
  EXPECT_EQ(slot.abandon(), nullptr);
}

TEST(BackgroundSlot, WhatAJobHeldIsFreedWhenItIsDone) {
  BackgroundSlot slot;
  auto held = std::make_shared<int>(1);
  slot.submit([copy = held](std::stop_token) {}, Deadline::never());
  slot.close(Deadline::never());
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace cohort::train

#include "cohort/train/data/prefetch.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

#include "cohort/base/message_of_test.h"

namespace cohort::train {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// A gate that produce() waits at, so that tests say when it goes on.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

TEST(Prefetch, HandsOutInOrderWhateverTheThreads) {
  for (const int threads : {0, 1, 2, 4})
    for (const int depth : {1, 2, 5}) {
      Prefetch<std::unique_ptr<std::int64_t>> prefetch(
          200,
          [](std::int64_t number) {
            // Some take longer: those behind overtake them.
            std::atomic<std::int64_t> spin = number % 7 * 500;
            while (spin > 0) --spin;
            return std::make_unique<std::int64_t>(number);
          },
          {.depth = depth, .threads = threads});
      for (std::int64_t expected = 0; expected < 200; ++expected) {
        const auto value = prefetch.next(Deadline::after(10s));
        ASSERT_TRUE(value.has_value());
        ASSERT_EQ(**value, expected);
      }
      EXPECT_FALSE(prefetch.next().has_value());
      EXPECT_FALSE(prefetch.next().has_value());
    }
}

TEST(Prefetch, FillsItsDepthUnaskedAndNeverRunsFurtherAhead) {
  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t begun = 0;
  std::atomic<std::int64_t> taken{0}, worst{0};
  Prefetch<std::int64_t> prefetch(500,
                                  [&](std::int64_t number) {
                                    const std::int64_t ahead = number - taken;
                                    const std::lock_guard lock(mutex);
                                    worst = std::max<std::int64_t>(worst, ahead);
                                    ++begun;
                                    changed.notify_all();
                                    return number;
                                  },
                                  {.depth = 3, .threads = 2});
  {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, 30s, [&] { return begun == 3; }));
  }
  while (prefetch.next(Deadline::after(10s))) ++taken;
  // next() makes room just before `taken` counts it: one more than depth - 1 can be seen.
  EXPECT_LE(worst, 3);
  EXPECT_EQ(begun, 500);
}

TEST(Prefetch, AnErrorComesInItsTurnAndStays) {
  for (const int threads : {0, 1, 3}) {
    Prefetch<std::int64_t> prefetch(10,
                                    [](std::int64_t number) {
                                      if (number == 4) throw std::runtime_error("number four");
                                      return number;
                                    },
                                    {.depth = 3, .threads = threads});
    for (std::int64_t expected = 0; expected < 4; ++expected)
      ASSERT_EQ(prefetch.next(Deadline::after(10s)), expected);
    for (int again = 0; again < 2; ++again)
      EXPECT_EQ(message_of<std::runtime_error>([&] { prefetch.next(Deadline::after(10s)); }),
                "number four");
  }
}

TEST(Prefetch, GivesUpAtTheDeadlineAndGoesOnAfterIt) {
  Gate gate;
  Prefetch<std::int64_t> prefetch(1, [&](std::int64_t number) {
    gate.pass();
    return number;
  });
  EXPECT_THAT(message_of<TimeoutError>([&] { prefetch.next(Deadline::after(10ms)); }),
              HasSubstr("batch 0"));
  gate.open();
  EXPECT_EQ(prefetch.next(Deadline::after(10s)), 0);
}

TEST(Prefetch, DestroyedMidwayItBeginsNothingMore) {
  std::atomic<int> calls{0};
  {
    Prefetch<std::int64_t> prefetch(1'000'000, [&](std::int64_t number) { return ++calls, number; },
                                    {.depth = 4, .threads = 2});
    prefetch.next(Deadline::after(10s));
  }
  EXPECT_LE(calls, 5);
}

TEST(Prefetch, RefusesOptionsThatCannotBe) {
  const auto same = [](std::int64_t number) { return number; };
  EXPECT_THROW(Prefetch<std::int64_t>(1, same, {.depth = 0}), InvalidInput);
  EXPECT_THROW(Prefetch<std::int64_t>(1, same, {.threads = -1}), InvalidInput);
  EXPECT_FALSE(Prefetch<std::int64_t>(0, same).next().has_value());
}

}  // namespace
}  // namespace cohort::train

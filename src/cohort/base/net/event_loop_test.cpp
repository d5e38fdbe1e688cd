#include "cohort/base/net/event_loop.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <string>
#include <thread>

namespace cohort {
namespace {

using std::chrono::milliseconds;

struct SocketPair {
  SocketPair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    a.reset(fds[0]);
    b.reset(fds[1]);
  }
  UniqueFd a, b;
};

TEST(EventLoop, CallsBackWhenADescriptorIsReadable) {
  EventLoop loop;
  SocketPair pair;
  std::string seen;
  loop.add(pair.a.get(), EPOLLIN, [&](std::uint32_t) {
    char c = 0;
    ASSERT_EQ(::read(pair.a.get(), &c, 1), 1);
    seen += c;
    loop.stop();
  });
  ASSERT_EQ(::write(pair.b.get(), "x", 1), 1);
  loop.run();
  EXPECT_EQ(seen, "x");
}

TEST(EventLoop, TimersRunInOrderOfTimeAndCancelledOnesDoNot) {
  EventLoop loop;
  std::string seen;
  loop.call_after(milliseconds(20), [&] {
    seen += 'b';
    loop.stop();
  });
  loop.call_after(milliseconds(5), [&] { seen += 'a'; });
  auto cancelled = loop.call_after(milliseconds(1), [&] { seen += 'x'; });
  loop.cancel(cancelled);
  loop.run();
  EXPECT_EQ(seen, "ab");
}

TEST(EventLoop, PostFromAnotherThreadWakesTheLoop) {
  EventLoop loop;
  int seen = 0;
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) loop.post([&] { ++seen; });
    loop.post([&] { loop.stop(); });
  });
  loop.run();
  other.join();
  EXPECT_EQ(seen, 1000);
}

TEST(EventLoop, ARemovedDescriptorIsNotCalledForAnEventAlreadyFetched) {
  EventLoop loop;
  SocketPair first, second;
  int calls = 0;
  auto callback = [&](std::uint32_t) {
    ++calls;
    loop.remove(first.a.get());
    loop.remove(second.a.get());
  };
  loop.add(first.a.get(), EPOLLIN, callback);
  loop.add(second.a.get(), EPOLLIN, callback);
  ASSERT_EQ(::write(first.b.get(), "x", 1), 1);
  ASSERT_EQ(::write(second.b.get(), "x", 1), 1);
  loop.run_once(Deadline::after(milliseconds(100)));
  loop.run_once(Deadline::after(milliseconds(10)));
  EXPECT_EQ(calls, 1);
}

TEST(EventLoop, RunOnceEndsAtItsDeadline) {
  EventLoop loop;
  auto start = Deadline::Clock::now();
  loop.run_once(Deadline::after(milliseconds(20)));
  EXPECT_GE(Deadline::Clock::now() - start, milliseconds(20));
}

}  // namespace
}  // namespace cohort

// Forming a group, breaking off, and what is left of it afterwards. Ranks are threads that share
// memory through a mapped file as processes do, or reach each other by TCP.
#include "cohort/collective/form.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>

#include "cohort/base/message_of_test.h"
#include "cohort/base/process/process.h"
#include "cohort/base/sanitized_test.h"
#include "cohort/collective/world.h"
#include "cohort/transport/host.h"

namespace cohort::collective {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr std::size_t kPart = std::size_t{64} << 20;
// What is promised takes some 20 ms; a machine that does other things gets more.
constexpr auto kAtOnce = milliseconds(500);

Deadline soon() { return Deadline::after(std::chrono::seconds(30)); }

Member rank_of(int rank, int size, bool own_host = false) {
  return {.rank = rank,
          .size = size,
          .task = "worker/" + std::to_string(rank),
          .host = "here",
          .host_identity = own_host ? "host " + std::to_string(rank) : ""};
}

FormOptions options_of(const std::string& id) {
  FormOptions options{.id = id, .part_bytes = kPart, .authenticate = {}, .connect = {}};
  use_network(options, {});
  return options;
}

std::vector<std::unique_ptr<Group>> form_all(const std::string& id, int size, bool own_hosts) {
  const auto rendezvous = std::make_shared<transport::MemoryRendezvous>();
  std::vector<std::future<std::unique_ptr<Group>>> forming;
  for (int rank = 0; rank < size; ++rank)
    forming.push_back(std::async(std::launch::async, [=] {
      return form_group(rank_of(rank, size, own_hosts), rendezvous, options_of(id), soon());
    }));
  std::vector<std::unique_ptr<Group>> groups;
  for (auto& one : forming) groups.push_back(one.get());
  return groups;
}

// Forms rank `self` of two, whose peer hangs, and breaks it off; how long that took.
milliseconds broken_off(int self, const std::shared_ptr<transport::Rendezvous>& rendezvous) {
  std::atomic<bool> cancelled = false;
  FormOptions options = options_of("world");
  options.cancelled = [&] { return cancelled.load(); };
  auto forming = std::async(std::launch::async, [&] {
    return message_of<PeerError>(
        [&] { form_group(rank_of(self, 2), rendezvous, options, soon()); });
  });
  EXPECT_EQ(forming.wait_for(milliseconds(100)), std::future_status::timeout);
  const auto from = Deadline::Clock::now();
  cancelled = true;
  EXPECT_THAT(forming.get(), HasSubstr("broken off"));
  return std::chrono::duration_cast<milliseconds>(Deadline::Clock::now() - from);
}

TEST(FormGroup, IsBrokenOffWhileARankDoesNotCome) {
  for (const int self : {0, 1})
    EXPECT_LT(broken_off(self, std::make_shared<transport::MemoryRendezvous>()), kAtOnce);
}

TEST(FormGroup, IsBrokenOffWhileAPeerHangsInTheHandshake) {
  for (const int self : {0, 1}) {
    const auto rendezvous = std::make_shared<transport::MemoryRendezvous>();
    std::promise<void> release;
    FormOptions hanging = options_of("world");
    hanging.authenticate = [released = release.get_future().share()](int, bool, Deadline,
                                                                     const Check&) {
      released.wait();
      throw PeerError("it hung");
    };
    std::atomic<bool> over = false;
    hanging.cancelled = [&] { return over.load(); };
    auto peer = std::async(std::launch::async, [&] {
      EXPECT_THROW(form_group(rank_of(1 - self, 2), rendezvous, hanging, soon()), PeerError);
    });
    EXPECT_LT(broken_off(self, rendezvous), kAtOnce);
    over = true;
    release.set_value();
  }
}

TEST(FormGroup, FailsAtOnceWhenARankThatHadComeDies) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  // What the child would have said of itself, had it come so far.
  const auto rendezvous = std::make_shared<transport::MemoryRendezvous>();
  rendezvous->set(
      "world/member/1",
      "worker/1\nhere\n" + transport::host_identity() + "\n\n" + process_identity(child) + "\n",
      soon());
  auto forming = std::async(std::launch::async, [&] {
    return message_of<PeerError>(
        [&] { form_group(rank_of(0, 2), rendezvous, options_of("world"), soon()); });
  });
  EXPECT_EQ(forming.wait_for(milliseconds(100)), std::future_status::timeout);
  const auto from = Deadline::Clock::now();
  ::kill(child, SIGKILL);
  EXPECT_THAT(forming.get(), HasSubstr("(worker/1 on here) died"));
  EXPECT_LT(Deadline::Clock::now() - from, kAtOnce);
  ::waitpid(child, nullptr, 0);
}

TEST(Group, AnAbortFromAnotherThreadEndsACallAtOnce) {
  for (const bool own_hosts : {false, true}) {
    SCOPED_TRACE(own_hosts ? "tcp" : "shared memory");
    std::vector<double> took;
    for (int round = 0; round < 5; ++round) {
      auto groups = form_all("round-" + std::to_string(round), 2, own_hosts);
      Deadline::Clock::time_point thrown;
      auto waiting = std::async(std::launch::async, [&] {
        std::vector<float> values(1 << 20, 1.0f);
        const std::string why =
            message_of<PeerError>([&] { groups[0]->all_reduce(std::span<float>(values)); });
        thrown = Deadline::Clock::now();
        return why;
      });
      EXPECT_EQ(waiting.wait_for(milliseconds(50)), std::future_status::timeout);
      const auto from = Deadline::Clock::now();
      groups[0]->abort("the view is over");
      EXPECT_THAT(waiting.get(), HasSubstr("the view is over"));
      took.push_back(std::chrono::duration<double, std::milli>(thrown - from).count());
    }
    std::sort(took.begin(), took.end());
    ::testing::Test::RecordProperty(own_hosts ? "tcp_ms" : "shm_ms", std::to_string(took[2]));
    EXPECT_LT(took[2], kSanitized ? 500.0 : 20.0);
  }
}

std::size_t entries_of(const char* folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

std::size_t arenas_mapped() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    if (line.find("memfd:cohort-arena") != std::string::npos) ++count;
  return count;
}

TEST(Group, LeavesNothingBehindWhenItIsFormedAnewManyTimes) {
  for (const bool own_hosts : {false, true}) {
    SCOPED_TRACE(own_hosts ? "tcp" : "shared memory");
    const auto once = [&](int round) {
      auto groups = form_all("view-" + std::to_string(round), 2, own_hosts);
      std::vector<std::future<void>> sums;
      for (auto& group : groups)
        sums.push_back(std::async(std::launch::async, [&group] {
          std::int64_t one = 1;
          Work work = group->all_reduce_async(&one, &one, 1, DataType::i64);
          work.wait();
          EXPECT_EQ(one, 2);
        }));
      for (auto& sum : sums) sum.get();
      if (round % 2 == 0) groups[0]->abort("the view is over");
    };
    once(0);
    const std::size_t files = entries_of("/proc/self/fd");
    const std::size_t threads = entries_of("/proc/self/task");
    for (int round = 1; round <= 200; ++round) once(round);
    EXPECT_EQ(entries_of("/proc/self/fd"), files);
    EXPECT_EQ(entries_of("/proc/self/task"), threads);
    EXPECT_EQ(arenas_mapped(), 0u);
  }
}

TEST(Group, ItsMemoryStaysAsLongAsABufferRefersToIt) {
  auto groups = form_all("view-1", 2, false);
  Buffer kept = groups[0]->allocate(1 << 20);
  kept.as<float>()[0] = 42;
  groups[0]->abort("the view is over");
  groups.clear();
  EXPECT_EQ(arenas_mapped(), 1u);
  EXPECT_EQ(kept.as<float>()[0], 42);
  kept = Buffer();
  EXPECT_EQ(arenas_mapped(), 0u);
}

}  // namespace
}  // namespace cohort::collective

// Ranks as processes that are killed and stopped at random instants.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <thread>

#include "cohort/base/sanitized_test.h"
#include "cohort/base/unique_fd.h"
#include "cohort/cluster/store/store_server.h"
#include "rank_process.h"

namespace cohort::collective {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

long shared_memory_kb() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  long kb = 0;
  while (file >> word)
    if (word == "Shmem:") file >> kb;
  return kb;
}

int rounds() {
  const char* text = std::getenv("COHORT_KILL_ROUNDS");
  return text != nullptr ? std::atoi(text) : kSanitized ? 40 : 200;
}

// How the ranks that are killed talk to each other.
struct Way {
  std::string name;
  std::string prefix;  // of the rank program's modes
  int size;
};
std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name; }
const Way kWays[] = {{"shm", "", 3}, {"tcp", "tcp-", 3}, {"hierarchical", "pairs-", 4}};

class KilledRank : public ::testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Transports, KilledRank, ::testing::ValuesIn(kWays),
                         [](const auto& info) { return info.param.name; });

TEST_P(KilledRank, IsNamedByAllOthersWithin100Ms) {
  const auto& [name, prefix, size] = GetParam();
  cluster::StoreServer store;
  std::mt19937 random(7);
  std::vector<double> detection_ms;
  const long memory_before = shared_memory_kb();
  for (int round = 0; round < rounds(); ++round) {
    auto ranks = start(size, store, "kill" + std::to_string(round), prefix + "loop");
    ASSERT_FALSE(HasFailure()) << "round " << round;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 15'000));  // the instant
    const int victim = static_cast<int>(random() % static_cast<unsigned>(size));
    const auto killed = Clock::now();
    ranks[victim]->signal(SIGKILL);
    for (int rank = 0; rank < size; ++rank) {
      if (rank == victim) continue;
      const std::string text = ranks[rank]->line(std::chrono::seconds(10));
      detection_ms.push_back(
          std::chrono::duration<double, std::milli>(Clock::now() - killed).count());
      EXPECT_THAT(text, HasSubstr("error rank " + std::to_string(victim)));
      EXPECT_THAT(text, HasSubstr("worker/" + std::to_string(victim)));
      EXPECT_THAT(text, HasSubstr("during "));
      EXPECT_EQ(ranks[rank]->wait(), 0);
    }
    ASSERT_FALSE(HasFailure()) << "round " << round << ", rank " << victim << " was killed";
  }
  std::sort(detection_ms.begin(), detection_ms.end());
  const double median = detection_ms[detection_ms.size() / 2];
  std::printf("detection: median %.1f ms, worst %.1f ms\n", median, detection_ms.back());
  // Sanitizers and busy machines stretch the tail; the typical case must hold.
  EXPECT_LT(median, kSanitized ? 1000 : 100);
  // Every round maps tens of megabytes.
  EXPECT_LT(shared_memory_kb() - memory_before, 64 * 1024);
}

TEST(CollectiveProcess, ADeathIsKnownWithoutACall) {
  cluster::StoreServer store;
  auto ranks = start(3, store, "idle", "idle");
  ranks[1]->signal(SIGKILL);
  for (const int rank : {0, 2}) {
    EXPECT_THAT(ranks[rank]->line(std::chrono::seconds(10)),
                AllOf(HasSubstr("error rank 1 (worker/1"), HasSubstr("died")));
    EXPECT_EQ(ranks[rank]->wait(), 0);
  }
}

TEST(CollectiveProcess, AStoppedRankIsNamedAtTheDeadline) {
  cluster::StoreServer store;
  auto ranks = start(3, store, "stop", "brief");
  ranks[1]->signal(SIGSTOP);
  for (const int rank : {0, 2}) {
    const std::string text = ranks[rank]->line(std::chrono::seconds(10));
    EXPECT_THAT(text, HasSubstr("rank 1 (worker/1"));
    EXPECT_THAT(text, HasSubstr("did not take part in time"));
    EXPECT_EQ(ranks[rank]->wait(), 0);
  }
  ranks[1]->signal(SIGCONT);
  EXPECT_THAT(ranks[1]->line(std::chrono::seconds(10)), HasSubstr("error "));
}

TEST(CollectiveProcess, OverTcpAStoppedRankIsNamedAtTheDeadline) {
  cluster::StoreServer store;
  auto ranks = start(2, store, "tcpstop", "tcp-brief");
  ranks[1]->signal(SIGSTOP);
  const std::string text = ranks[0]->line(std::chrono::seconds(10));
  EXPECT_THAT(text, HasSubstr("rank 1"));
  EXPECT_THAT(text, HasSubstr("in time"));
  EXPECT_EQ(ranks[0]->wait(), 0);
  ranks[1]->signal(SIGCONT);
  EXPECT_THAT(ranks[1]->line(std::chrono::seconds(10)), HasSubstr("error "));
}

TEST(CollectiveProcess, SixtyFourProcessesFormAGroup) {
  cluster::StoreServer store;
  const auto began = Clock::now();
  auto ranks = start(64, store, "many", "once");
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  for (auto& rank : ranks) EXPECT_EQ(rank->wait(), 0);
  std::printf("64 processes formed a group in %.2f s, program start included\n", seconds);
  EXPECT_LT(seconds, kSanitized ? 60 : 20);
}

}  // namespace
}  // namespace cohort::collective

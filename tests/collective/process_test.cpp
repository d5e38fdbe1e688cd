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

#include "cohort/base/unique_fd.h"
#include "cohort/cluster/store_server.h"

namespace cohort::collective {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// A rank's process; its standard output can be read line by line.
class Rank {
 public:
  Rank(int rank, int size, const cluster::Address& store, const std::string& id,
       const std::string& mode) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    output_.reset(ends[0]);
    const UniqueFd input(ends[1]);
    const std::string program = std::string(COLLECTIVE_RANK);
    std::vector<std::string> words{program,    std::to_string(rank),       std::to_string(size),
                                   store.host, std::to_string(store.port), id,
                                   mode};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(input.get(), STDOUT_FILENO);
      ::execv(program.c_str(), arguments.data());
      ::_exit(127);
    }
  }
  Rank(const Rank&) = delete;
  ~Rank() {
    if (reaped_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  void signal(int number) const { ::kill(pid_, number); }

  // The next line, or "" at the end of the output or after `limit`.
  std::string line(std::chrono::milliseconds limit) {
    const Deadline deadline = Deadline::after(limit);
    while (true) {
      if (const std::size_t end = text_.find('\n'); end != std::string::npos) {
        std::string result = text_.substr(0, end);
        text_.erase(0, end + 1);
        return result;
      }
      pollfd entry{output_.get(), POLLIN, 0};
      if (::poll(&entry, 1, deadline.poll_timeout_ms()) <= 0) return "";
      char buffer[4096];
      const ssize_t got = ::read(output_.get(), buffer, sizeof buffer);
      if (got <= 0) return "";
      text_.append(buffer, static_cast<std::size_t>(got));
    }
  }

  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    reaped_ = true;
    return status;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd output_;
  std::string text_;
  bool reaped_ = false;
};

std::vector<std::unique_ptr<Rank>> start(int size, const cluster::StoreServer& store,
                                         const std::string& id, const std::string& mode) {
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<Rank>(rank, size, store.address(), id, mode));
  for (auto& rank : ranks) EXPECT_EQ(rank->line(std::chrono::seconds(30)), "ready");
  return ranks;
}

long shared_memory_kb() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  long kb = 0;
  while (file >> word)
    if (word == "Shmem:") file >> kb;
  return kb;
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

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
  // Sanitizers and crowded machines stretch the tail; the typical case must hold.
  EXPECT_LT(median, kSanitized ? 1000 : 100);
  // Every round maps tens of megabytes.
  EXPECT_LT(shared_memory_kb() - memory_before, 64 * 1024);
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

#include "cohort/transport/shm/carried_memory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <future>

#include "cohort/base/unique_fd.h"
#include "cohort/transport/shm/join.h"

namespace cohort::transport::shm {
namespace {

constexpr std::size_t kPart = std::size_t{4} << 20;
constexpr std::size_t kBlock = std::size_t{2} << 20;  // large enough to go back to the system
constexpr std::byte kOld{1}, kNew{2}, kStale{3};

Deadline in_time() { return Deadline::after(std::chrono::seconds(20)); }

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    out = UniqueFd(ends[0]);
    in = UniqueFd(ends[1]);
  }
  void write(const std::string& text) const {
    ASSERT_EQ(::write(in.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::string read() const {
    char text[256];
    const ssize_t length = ::read(out.get(), text, sizeof text);
    return {text, static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
  }
  UniqueFd out, in;
};

// Knows the one value that the parent writes.
class PipeRendezvous final : public Rendezvous {
 public:
  explicit PipeRendezvous(const Pipe& pipe) : pipe_(pipe) {}
  void set(const std::string&, const std::string&, Deadline) override {}
  std::string get(const std::string&, Deadline) override { return pipe_.read(); }

 private:
  const Pipe& pipe_;
};

// Ranks 0 and 1 are threads of this process and stay; rank 2 is a process of its own.
class CarriedMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    child_ = ::fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) be_rank_two();
    arenas_ = join_both("first", 3);
    for (int rank = 0; rank < 2; ++rank) {
      blocks_[rank] = arenas_[rank]->allocate(kBlock);
      std::memset(blocks_[rank], static_cast<int>(kOld), kBlock);
    }
  }
  void TearDown() override {
    if (child_ > 0) end_child();
  }

  void end_child() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = -1;
  }

  // Waits for a block's offset, writes all over it, says so, and goes on until it is killed.
  [[noreturn]] void be_rank_two() {
    PipeRendezvous rendezvous(to_child_);
    const auto arena = join(rendezvous, {.key = "first", .rank = 2, .size = 3}, in_time());
    while (true) {
      const std::string offset = to_child_.read();
      if (offset.empty()) ::_exit(1);
      std::memset(arena->resolve({SharedRef::Kind::offset, std::stoull(offset)}),
                  static_cast<int>(kStale), kBlock);
      to_parent_.write("done");
    }
  }

  std::vector<std::shared_ptr<Arena>> join_both(const std::string& key, int size) {
    const std::vector<std::string> claims{carried_[0]->claim(), carried_[1]->claim()};
    std::vector<std::future<std::shared_ptr<Arena>>> ranks;
    for (int rank = 0; rank < 2; ++rank)
      ranks.push_back(std::async(std::launch::async, [this, &key, &claims, rank, size] {
        return join(rendezvous_,
                    {.key = key,
                     .rank = rank,
                     .size = size,
                     .part_bytes = kPart,
                     .carried = carried_[rank],
                     .claims = claims},
                    in_time());
      }));
    if (size > 2) to_child_.write(rendezvous_.get(key + "/socket", in_time()));
    std::vector<std::shared_ptr<Arena>> arenas;
    for (auto& rank : ranks) arenas.push_back(rank.get());
    return arenas;
  }

  // The old group is given up, and the next one formed.
  void go_on() {
    for (int rank = 0; rank < 2; ++rank) {
      offsets_[rank] = arenas_[rank]->locate(blocks_[rank], kBlock).value;
      arenas_[rank]->free(blocks_[rank]);
    }
    arenas_ = join_both("second", 2);
    for (int rank = 0; rank < 2; ++rank) blocks_[rank] = arenas_[rank]->allocate(kBlock);
  }

  Pipe to_child_, to_parent_;
  MemoryRendezvous rendezvous_;
  std::shared_ptr<CarriedMemory> carried_[2] = {std::make_shared<CarriedMemory>(),
                                                std::make_shared<CarriedMemory>()};
  pid_t child_ = -1;
  std::vector<std::shared_ptr<Arena>> arenas_;
  std::byte* blocks_[2] = {};
  std::uint64_t offsets_[2] = {};
};

TEST_F(CarriedMemoryTest, SurvivorsOfADeathGoOnInTheirPages) {
  const std::string first[2] = {carried_[0]->claim(), carried_[1]->claim()};
  end_child();
  go_on();
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(carried_[rank]->claim(), first[rank]);
    EXPECT_EQ(blocks_[rank][0], kOld);  // its page was never given back
    blocks_[rank][0] = kNew;
    EXPECT_EQ(arenas_[1 - rank]->resolve(arenas_[rank]->locate(blocks_[rank], kBlock))[0], kNew);
    EXPECT_EQ(arenas_[rank]->size(), 2);
    EXPECT_EQ(arenas_[rank]->deaths(), 0u);
  }
}

TEST_F(CarriedMemoryTest, AProcessThatWasShutOutDoesNotReachTheNextGroupsMemory) {
  const std::string first = carried_[0]->claim();
  go_on();
  EXPECT_NE(carried_[0]->claim(), first);
  for (int rank = 0; rank < 2; ++rank) std::memset(blocks_[rank], static_cast<int>(kNew), kBlock);
  for (const std::uint64_t offset : offsets_) {
    to_child_.write(std::to_string(offset));
    ASSERT_EQ(to_parent_.read(), "done");
  }
  for (int rank = 0; rank < 2; ++rank)
    for (const std::size_t at : {std::size_t{0}, kBlock / 2, kBlock - 1})
      EXPECT_EQ(blocks_[rank][at], kNew);
}

TEST_F(CarriedMemoryTest, RanksThatDoNotHoldTheSameGetNew) {
  const std::string first = carried_[0]->claim();
  end_child();
  carried_[1]->reset();
  go_on();
  EXPECT_NE(carried_[0]->claim(), first);
  EXPECT_NE(carried_[1]->claim(), "");
}

TEST_F(CarriedMemoryTest, WhatWasNotFreedStaysAllocated) {
  end_child();
  arenas_ = join_both("second", 2);
  std::byte* next = arenas_[0]->allocate(1 << 20);
  EXPECT_TRUE(next >= blocks_[0] + kBlock || next + (1 << 20) <= blocks_[0]);
  EXPECT_EQ(blocks_[0][0], kOld);
  arenas_[0]->free(blocks_[0]);  // which the earlier arena gave
  EXPECT_NO_THROW(arenas_[0]->allocate(kBlock));
}

}  // namespace
}  // namespace cohort::transport::shm

// Conformance: collectives that move data, messages, sub-groups.
#include <gtest/gtest.h>

#include <numeric>

#include "spawn.h"

namespace cohort::collective::testing {
namespace {

constexpr auto kMoveTimeout = std::chrono::seconds(30);

class Move : public ::testing::TestWithParam<Factory> {
 protected:
  void spawn(int size, const Body& body) { GetParam().spawn(size, kMoveTimeout, body); }
};
INSTANTIATE_TEST_SUITE_P(Transports, Move, ::testing::ValuesIn(all_factories()),
                         [](const auto& info) { return info.param.name; });

// A value that says who made it, for whom, and where it stands.
std::int32_t stamp(int from, int to, std::size_t at) {
  return static_cast<std::int32_t>(from * 1'000'003 + to * 10'007 + static_cast<int>(at % 9973));
}

constexpr std::size_t kCounts[] = {0, 1, 100, 5'000, 250'000};

TEST_P(Move, BroadcastFromEveryRoot) {
  spawn(3, [&](Group& group) {
    for (const std::size_t count : kCounts)
      for (int root = 0; root < group.size(); ++root) {
        std::vector<std::int32_t> data(count);
        if (group.rank() == root)
          for (std::size_t i = 0; i < count; ++i) data[i] = stamp(root, 0, i);
        group.broadcast(std::span(data), root);
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], stamp(root, 0, i));
      }
  });
}

TEST_P(Move, AllGatherInAndOutOfPlace) {
  spawn(4, [&](Group& group) {
    for (const std::size_t count : kCounts)
      for (const bool in_place : {false, true}) {
        std::vector<std::int32_t> in(count), out(count * 4);
        std::int32_t* own =
            in_place ? out.data() + count * static_cast<std::size_t>(group.rank()) : in.data();
        for (std::size_t i = 0; i < count; ++i) own[i] = stamp(group.rank(), 0, i);
        group.all_gather(in_place ? nullptr : in.data(), out.data(), count, DataType::i32);
        for (int from = 0; from < 4; ++from)
          for (std::size_t i = 0; i < count; ++i)
            ASSERT_EQ(out[static_cast<std::size_t>(from) * count + i], stamp(from, 0, i));
      }
  });
}

TEST_P(Move, AllGatherOfDifferentCounts) {
  spawn(3, [&](Group& group) {
    const std::vector<std::vector<std::size_t>> layouts{{3, 0, 7}, {1, 60'000, 200'000}};
    for (const auto& counts : layouts) {
      const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
      std::vector<std::int32_t> in(counts[group.rank()] + 1), out(total);
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = stamp(group.rank(), 0, i);
      group.all_gather_v(in.data(), out.data(), counts, DataType::i32);
      std::size_t at = 0;
      for (int from = 0; from < 3; ++from)
        for (std::size_t i = 0; i < counts[from]; ++i, ++at) ASSERT_EQ(out[at], stamp(from, 0, i));
    }
  });
}

TEST_P(Move, AllToAllInAndOutOfPlace) {
  spawn(3, [&](Group& group) {
    for (const std::size_t count : kCounts)
      for (const bool in_place : {false, true}) {
        std::vector<std::int32_t> in(count * 3), separate(count * 3);
        for (int to = 0; to < 3; ++to)
          for (std::size_t i = 0; i < count; ++i)
            in[static_cast<std::size_t>(to) * count + i] = stamp(group.rank(), to, i);
        auto& out = in_place ? in : separate;
        group.all_to_all(in.data(), out.data(), count, DataType::i32);
        for (int from = 0; from < 3; ++from)
          for (std::size_t i = 0; i < count; ++i)
            ASSERT_EQ(out[static_cast<std::size_t>(from) * count + i],
                      stamp(from, group.rank(), i));
      }
  });
}

TEST_P(Move, AllToAllOfDifferentCounts) {
  spawn(3, [&](Group& group) {
    for (const std::size_t unit : {std::size_t{1}, std::size_t{40'000}}) {
      const auto count = [&](int from, int to) {
        return static_cast<std::size_t>((from + 2 * to) % 4) * unit;
      };
      std::vector<std::size_t> sends, receives;
      std::vector<std::int32_t> in;
      for (int peer = 0; peer < 3; ++peer) {
        sends.push_back(count(group.rank(), peer));
        receives.push_back(count(peer, group.rank()));
        for (std::size_t i = 0; i < sends.back(); ++i) in.push_back(stamp(group.rank(), peer, i));
      }
      std::vector<std::int32_t> out(std::accumulate(receives.begin(), receives.end(), 0ul));
      in.resize(in.size() + 1);
      out.resize(out.size() + 1);
      group.all_to_all_v(in.data(), sends, out.data(), receives, DataType::i32);
      std::size_t at = 0;
      for (int from = 0; from < 3; ++from)
        for (std::size_t i = 0; i < receives[from]; ++i, ++at)
          ASSERT_EQ(out[at], stamp(from, group.rank(), i));
    }
  });
}

TEST_P(Move, GatherAndScatterAreInverse) {
  spawn(4, [&](Group& group) {
    for (const std::size_t count : kCounts)
      for (const int root : {0, 3}) {
        const bool is_root = group.rank() == root;
        std::vector<std::int32_t> own(count), all(is_root ? count * 4 : 0), back(count);
        for (std::size_t i = 0; i < count; ++i) own[i] = stamp(group.rank(), root, i);
        group.gather(own.data(), all.data(), count, DataType::i32, root);
        if (is_root && count > 0) {
          EXPECT_EQ(all[count * 2], stamp(2, root, 0));
        }
        group.scatter(all.data(), back.data(), count, DataType::i32, root);
        ASSERT_EQ(back, own);
        if (is_root)
          group.scatter(all.data(), all.data(), count, DataType::i32, root);
        else
          group.scatter(nullptr, back.data(), count, DataType::i32, root);
        if (is_root) back.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
        ASSERT_EQ(back, own);
      }
  });
}

TEST_P(Move, MessagesArriveInOrder) {
  spawn(2, [&](Group& group) {
    const int peer = 1 - group.rank();
    for (const std::size_t count : kCounts) {
      std::vector<std::vector<std::int32_t>> out(5), in(5);
      std::vector<Work> works;
      for (int m = 0; m < 5; ++m) {
        out[m].resize(count);
        in[m].resize(count);
        for (std::size_t i = 0; i < count; ++i) out[m][i] = stamp(group.rank(), m, i);
        works.push_back(group.send_async(out[m].data(), count, DataType::i32, peer));
        works.push_back(group.recv_async(in[m].data(), count, DataType::i32, peer));
      }
      group.barrier();  // beside messages that are under way
      for (Work& work : works) work.wait();
      for (int m = 0; m < 5; ++m)
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(in[m][i], stamp(peer, m, i));
    }
  });
}

TEST_P(Move, SmallMessagesDoNotWaitForTheirReader) {
  spawn(3, [&](Group& group) {
    const int next = (group.rank() + 1) % 3;
    const int previous = (group.rank() + 2) % 3;
    for (int round = 0; round < 20; ++round) {
      const std::int32_t given = group.rank() * 100 + round;
      std::int32_t got = -1;
      group.send(&given, 1, DataType::i32, next);
      group.recv(&got, 1, DataType::i32, previous);
      EXPECT_EQ(got, previous * 100 + round);
    }
  });
}

TEST_P(Move, SubGroupsHaveRanksOfTheirOwn) {
  spawn(5, [&](Group& group) {
    const auto parity = group.split(group.rank() % 2);
    ASSERT_NE(parity, nullptr);
    EXPECT_EQ(parity->size(), group.rank() % 2 == 0 ? 3 : 2);
    EXPECT_EQ(parity->rank(), group.rank() / 2);
    std::int32_t sum = group.rank();
    parity->all_reduce(&sum, &sum, 1, DataType::i32);
    EXPECT_EQ(sum, group.rank() % 2 == 0 ? 6 : 4);
    EXPECT_EQ(group.split(group.rank() == 4 ? -1 : 0) == nullptr, group.rank() == 4);
    if (group.rank() >= 3) {
      const std::vector<int> pair{3, 4};
      const auto sub = group.subgroup(pair);
      std::vector<float> data(100'000, 1);
      sub->all_reduce(std::span(data));
      EXPECT_EQ(data.back(), 2);
    }
    group.barrier();
  });
}

TEST_P(Move, MemoryOfTheParentIsReachableInSubGroups) {
  spawn(2, [&](Group& group) {
    const std::vector<int> both{0, 1};
    const auto sub = group.subgroup(both);
    const Buffer buffer = group.allocate(1 << 20);
    for (float& x : buffer.as<float>()) x = 3;
    sub->all_reduce(buffer.as<float>());
    EXPECT_EQ(buffer.as<float>()[12'345], 6);
  });
}

TEST_P(Move, ManySubGroupsDoNotUseUpMemory) {
  spawn(2, [&](Group& group) {
    const std::vector<int> both{0, 1};
    for (int i = 0; i < 300; ++i) {
      const auto sub = group.subgroup(both);
      std::vector<float> data(2'000, 1);
      sub->all_reduce(std::span(data));
      group.barrier();
    }
  });
}

TEST_P(Move, AGroupOfOneCopies) {
  spawn(1, [&](Group& group) {
    const std::vector<float> in{1, 2, 3};
    std::vector<float> out(3);
    group.all_reduce(in.data(), out.data(), 3, DataType::f32, {.post_scale = 2});
    EXPECT_EQ(out, (std::vector<float>{2, 4, 6}));
    group.all_gather(in.data(), out.data(), 3, DataType::f32);
    EXPECT_EQ(out, in);
    group.barrier();
  });
}

}  // namespace
}  // namespace cohort::collective::testing

// Every call of a group over NCCL gives what a Group's gives, on every type. Over the stand-in.
#include <cmath>
#include <cstring>
#include <numeric>

#include "../reference.h"
#include "cohort/base/message_of_test.h"
#include "nccl_fixture.h"

namespace cohort::collective::nccl::testing {
namespace {

using collective::testing::Bytes;
using collective::testing::reference_reduce;

constexpr DataType kTypes[] = {DataType::f32,  DataType::f64, DataType::f16,
                               DataType::bf16, DataType::i8,  DataType::u8,
                               DataType::i32,  DataType::i64, DataType::boolean};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::minimum, ReduceOp::maximum,
                             ReduceOp::product};

bool has(DataType type, ReduceOp op) {
  return op != ReduceOp::average ||
         (type != DataType::boolean && type != DataType::i8 && type != DataType::u8);
}

template <typename T>
void put(Bytes& bytes, std::size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof value, &value, sizeof value);
}

// As f16: exact for whole numbers up to 2048.
std::uint16_t half_of(int value) {
  if (value == 0) return 0;
  const int exponent = std::ilogb(value);
  const int mantissa = static_cast<int>(std::ldexp(std::abs(value), 10 - exponent)) - 1024;
  return static_cast<std::uint16_t>((value < 0 ? 0x8000 : 0) + ((exponent + 15) << 10) + mantissa);
}

void put_number(Bytes& bytes, std::size_t index, DataType type, int value) {
  switch (type) {
    case DataType::f32:
      return put(bytes, index, static_cast<float>(value));
    case DataType::f64:
      return put(bytes, index, static_cast<double>(value));
    case DataType::f16:
      return put(bytes, index, half_of(value));
    case DataType::bf16: {
      const auto wide = static_cast<float>(value);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &wide, sizeof bits);
      return put(bytes, index, static_cast<std::uint16_t>(bits >> 16));
    }
    case DataType::i8:
      return put(bytes, index, static_cast<std::int8_t>(value));
    case DataType::u8:
      return put(bytes, index, static_cast<std::uint8_t>(std::abs(value)));
    case DataType::i32:
      return put(bytes, index, value);
    case DataType::i64:
      return put(bytes, index, static_cast<std::int64_t>(value));
    case DataType::boolean:
      return put(bytes, index, value > 0);
  }
}

// Whole numbers from -3 to 3: their sums and products are exact in every type and in any order.
Bytes numbers(DataType type, std::size_t count, int rank) {
  Bytes bytes(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i)
    put_number(bytes, i, type,
               static_cast<int>((i * 5 + static_cast<std::size_t>(rank) * 3) % 7) - 3);
  return bytes;
}

std::vector<Bytes> numbers_of_all(DataType type, std::size_t count, int size) {
  std::vector<Bytes> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(numbers(type, count, rank));
  return all;
}

Bytes part(const Bytes& bytes, std::size_t first, std::size_t count) {
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(first);
  return Bytes(begin, begin + static_cast<std::ptrdiff_t>(count));
}

Bytes joined(const Bytes& a, const Bytes& b) {
  Bytes both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

using NcclCalls = NcclTest;

TEST_F(NcclCalls, AllReduceGivesTheReferencesResultForEveryTypeAndOperation) {
  for (const int size : {1, 2, 3, 4})
    run(size, [&](Group& group, DeviceGroup& nccl) {
      const Stream stream;
      for (const DataType type : kTypes)
        for (const ReduceOp op : kOps) {
          if (!has(type, op)) continue;
          for (const std::size_t count : {0ul, 1ul, 37ul, 1025ul}) {
            const auto inputs = numbers_of_all(type, count, size);
            const Bytes expected = reference_reduce(type, inputs, {.op = op});
            Bytes in_place = inputs[static_cast<std::size_t>(group.rank())];
            const Bytes in = in_place;
            Bytes out(in.size());
            nccl.all_reduce(in.data(), out.data(), count, type, op, stream);
            nccl.all_reduce(in_place.data(), in_place.data(), count, type, op, stream);
            ASSERT_TRUE(stream.synchronize());
            EXPECT_EQ(out, expected) << to_string(type) << ' ' << to_string(op) << ' ' << count;
            EXPECT_EQ(in_place, expected)
                << to_string(type) << ' ' << to_string(op) << ' ' << count;
          }
        }
    });
}

TEST_F(NcclCalls, ReduceScatterGivesEachRankItsRun) {
  for (const int size : {1, 2, 3, 4})
    run(size, [&](Group& group, DeviceGroup& nccl) {
      const Stream stream;
      for (const DataType type : kTypes)
        for (const ReduceOp op : kOps) {
          if (!has(type, op)) continue;
          for (const std::size_t count : {0ul, 1ul, 513ul}) {
            const auto inputs = numbers_of_all(type, count * static_cast<std::size_t>(size), size);
            const std::size_t run = count * size_of(type);
            const std::size_t own = run * static_cast<std::size_t>(group.rank());
            const Bytes expected = part(reference_reduce(type, inputs, {.op = op}), own, run);
            Bytes in_place = inputs[static_cast<std::size_t>(group.rank())];
            const Bytes in = in_place;
            Bytes out(run);
            nccl.reduce_scatter(in.data(), out.data(), count, type, op, stream);
            nccl.reduce_scatter(in_place.data(), in_place.data() + own, count, type, op, stream);
            ASSERT_TRUE(stream.synchronize());
            EXPECT_EQ(out, expected) << to_string(type) << ' ' << to_string(op) << ' ' << count;
            EXPECT_EQ(part(in_place, own, run), expected)
                << to_string(type) << ' ' << to_string(op);
          }
        }
    });
}

TEST_F(NcclCalls, AllGatherPacksAnyCountsInRankOrder) {
  const std::vector<std::size_t> kinds[] = {
      {3, 3, 3, 3}, {1, 700, 0, 5}, {0, 0, 0, 9}, {4096, 1, 1, 1}, {0, 0, 0, 0}};
  for (const int size : {1, 2, 3, 4})
    run(size, [&](Group& group, DeviceGroup& nccl) {
      const Stream stream;
      const auto rank = static_cast<std::size_t>(group.rank());
      for (const DataType type : kTypes)
        for (auto counts : kinds) {
          counts.resize(static_cast<std::size_t>(size));
          Bytes expected;
          for (int from = 0; from < size; ++from)
            expected =
                joined(expected, numbers(type, counts[static_cast<std::size_t>(from)], from));
          const std::size_t before =
              std::accumulate(counts.begin(), counts.begin() + group.rank(), std::size_t{0}) *
              size_of(type);
          const Bytes own = numbers(type, counts[rank], group.rank());
          Bytes separate(expected.size());
          nccl.all_gather_v(own.data(), separate.data(), counts, type, stream);
          Bytes in_place(expected.size());
          std::copy(own.begin(), own.end(), in_place.begin() + static_cast<std::ptrdiff_t>(before));
          Bytes implied = in_place;
          nccl.all_gather_v(in_place.data() + before, in_place.data(), counts, type, stream);
          nccl.all_gather_v(nullptr, implied.data(), counts, type, stream);
          ASSERT_TRUE(stream.synchronize());
          EXPECT_EQ(separate, expected) << to_string(type);
          EXPECT_EQ(in_place, expected) << to_string(type);
          EXPECT_EQ(implied, expected) << to_string(type);
        }
    });
}

TEST_F(NcclCalls, AllToAllBringsEachPairsElementsToTheirPlace) {
  const auto between = [](int from, int to) {
    return static_cast<std::size_t>((from * 5 + to * 3) % 4);
  };
  for (const int size : {1, 2, 3, 4})
    for (const std::size_t scale : {0ul, 1ul, 300ul})
      run(size, [&](Group& group, DeviceGroup& nccl) {
        const Stream stream;
        const int rank = group.rank();
        for (const DataType type : kTypes) {
          std::vector<std::size_t> sends, receives;
          Bytes in, expected;
          for (int peer = 0; peer < size; ++peer) {
            sends.push_back(between(rank, peer) * scale);
            receives.push_back(between(peer, rank) * scale);
            in = joined(in, numbers(type, sends.back(), rank * 4 + peer));
            expected = joined(expected, numbers(type, receives.back(), peer * 4 + rank));
          }
          Bytes out(expected.size());
          nccl.all_to_all_v(in.data(), sends, out.data(), receives, type, stream);
          ASSERT_TRUE(stream.synchronize());
          EXPECT_EQ(out, expected) << to_string(type) << " x " << scale;
        }
      });
}

TEST_F(NcclCalls, BroadcastReachesAllFromEveryRoot) {
  for (const int size : {1, 2, 3, 4})
    run(size, [&](Group& group, DeviceGroup& nccl) {
      const Stream stream;
      for (int root = 0; root < size; ++root)
        for (const DataType type : kTypes)
          for (const std::size_t count : {0ul, 1ul, 1023ul}) {
            const Bytes expected = numbers(type, count, root + 1);
            Bytes data = group.rank() == root ? expected : Bytes(expected.size());
            nccl.broadcast(data.data(), count, type, root, stream);
            ASSERT_TRUE(stream.synchronize());
            EXPECT_EQ(data, expected) << to_string(type) << " from " << root;
          }
    });
}

// The stand-in refuses a call before the one before it is done, as NCCL does.
TEST_F(NcclCalls, CallsThatStayInProgressForAWhileAreWaitedForOneByOne) {
  controls().polls = 5;
  run(3, [&](Group& group, DeviceGroup& nccl) {
    const Stream stream;
    std::vector<float> data(100, 1.0f);
    for (int i = 0; i < 4; ++i)
      nccl.all_reduce(data.data(), data.data(), data.size(), DataType::f32, ReduceOp::sum, stream);
    ASSERT_TRUE(stream.synchronize());
    EXPECT_EQ(data, std::vector<float>(100, 81.0f)) << group.rank();
  });
}

TEST_F(NcclCalls, CommunicatorsOfSeveralThreadsDoNotDisturbEachOther) {
  controls().polls = 2;
  run_groups(4, [&](Group& group) {
    const auto pair = group.split(group.rank() % 2);
    const auto nccl = form(*pair, on_gpu(group.rank()), Deadline::after(std::chrono::seconds(20)));
    const Stream stream;
    std::vector<int> data(50, group.rank());
    for (int i = 0; i < 20; ++i)
      nccl->all_reduce(data.data(), data.data(), data.size(), DataType::i32, ReduceOp::maximum,
                       stream);
    ASSERT_TRUE(stream.synchronize());
    EXPECT_EQ(data, std::vector<int>(50, group.rank() % 2 + 2));
    group.barrier();
  });
}

TEST_F(NcclCalls, WhatNcclCannotDoIsRefusedByNameAndLeavesTheGroupIntact) {
  run(2, [&](Group& group, DeviceGroup& nccl) {
    const Stream stream;
    std::vector<std::uint8_t> data(16, 1);
    const std::vector<std::size_t> four{4, 4}, own{1, 2}, one{1};
    auto* bytes = data.data();
    const auto refused = [](const std::function<void()>& call, const std::string& word) {
      const std::string text = message_of<InvalidInput>(call);
      EXPECT_NE(text.find(word), std::string::npos) << text;
    };
    for (const DataType type : {DataType::i8, DataType::u8})
      refused([&] { nccl.all_reduce(bytes, bytes, 4, type, ReduceOp::average, stream); },
              std::string("average of ") + std::string(to_string(type)));
    refused(
        [&] { nccl.reduce_scatter(bytes, bytes + 8, 2, DataType::u8, ReduceOp::average, stream); },
        "average of u8");
    refused([&] { nccl.all_reduce(bytes, bytes, 4, DataType::boolean, ReduceOp::average, stream); },
            "booleans have no average");
    refused([&] { nccl.all_to_all_v(bytes, four, bytes, four, DataType::u8, stream); }, "in place");
    refused([&] { nccl.all_gather_v(bytes + 2, bytes, four, DataType::u8, stream); }, "in place");
    refused([&] { nccl.reduce_scatter(bytes, bytes + 1, 4, DataType::u8, ReduceOp::sum, stream); },
            "in place");
    refused(
        [&] {
          nccl.all_to_all_v(bytes, group.rank() == 0 ? own : four, bytes + 8,
                            group.rank() == 0 ? four : own, DataType::u8, stream);
        },
        "to itself");
    refused([&] { nccl.all_gather_v(bytes, bytes + 8, one, DataType::u8, stream); },
            "1 counts for 2 ranks");
    refused([&] { nccl.broadcast(bytes, 4, DataType::u8, 2, stream); }, "root 2");
    refused([&] { nccl.broadcast(nullptr, 4, DataType::u8, 0, stream); }, "null pointer");
    nccl.all_reduce(bytes, bytes, data.size(), DataType::u8, ReduceOp::sum, stream);
    ASSERT_TRUE(stream.synchronize());
    EXPECT_EQ(data, std::vector<std::uint8_t>(16, 2));
  });
}

TEST_F(NcclCalls, TheGroupSaysWhatItIs) {
  run(2, [&](Group& group, DeviceGroup& nccl) {
    EXPECT_EQ(nccl.name(), "NCCL 2.28.9");
    EXPECT_EQ(nccl.rank(), group.rank());
    EXPECT_EQ(nccl.size(), 2);
    EXPECT_TRUE(nccl.can_be_captured());
  });
}

}  // namespace
}  // namespace cohort::collective::nccl::testing

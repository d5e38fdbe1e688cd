// Conformance: reductions give the reference's bits on every transport.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "reference.h"
#include "spawn.h"

namespace cohort::collective::testing {
namespace {

constexpr auto kTimeout = std::chrono::seconds(30);
constexpr DataType kTypes[] = {DataType::f32,  DataType::f64, DataType::f16,
                               DataType::bf16, DataType::i8,  DataType::u8,
                               DataType::i32,  DataType::i64, DataType::boolean};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::minimum, ReduceOp::maximum,
                             ReduceOp::product};

class Reduce : public ::testing::TestWithParam<Factory> {
 protected:
  void spawn(int size, const Body& body) { GetParam().spawn(size, kTimeout, body); }
};
INSTANTIATE_TEST_SUITE_P(Transports, Reduce, ::testing::ValuesIn(all_factories()),
                         [](const auto& info) { return info.param.name; });

std::vector<Bytes> contributions(DataType type, std::size_t count, int size) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < size; ++rank) inputs.push_back(contribution(type, count, rank));
  return inputs;
}

TEST_P(Reduce, EveryTypeAndOperationGivesTheReferencesBits) {
  for (const int size : {2, 3, 5})
    spawn(size, [&](Group& group) {
      for (const DataType type : kTypes)
        for (const ReduceOp op : kOps) {
          if (type == DataType::boolean && op == ReduceOp::average) continue;
          for (const std::size_t count : {std::size_t{1}, std::size_t{37}, std::size_t{9001}}) {
            const auto inputs = contributions(type, count, size);
            const Bytes expected = reference_reduce(type, inputs, {.op = op});
            Bytes data = inputs[group.rank()];
            group.all_reduce(data.data(), data.data(), count, type, {.op = op});
            EXPECT_EQ(first_difference(data, expected), -1)
                << to_string(type) << ' ' << to_string(op) << ' ' << count;
          }
        }
    });
}

TEST_P(Reduce, AllSizesOfMessageInOwnAndGroupMemory) {
  for (const int size : {2, 4})
    spawn(size, [&](Group& group) {
      for (const std::size_t count :
           {0ul, 1ul, 15ul, 1024ul, 1025ul, 4096ul, 65536ul, 65537ul, 300'001ul, 1'000'003ul}) {
        const auto inputs = contributions(DataType::f32, count, size);
        const Bytes expected = reference_reduce(DataType::f32, inputs, {});
        const Bytes& own = inputs[group.rank()];

        Bytes separate(own.size());
        group.all_reduce(own.data(), separate.data(), count, DataType::f32);
        EXPECT_EQ(first_difference(separate, expected), -1)
            << "own memory, out of place, " << count;
        EXPECT_EQ(first_difference(own, inputs[group.rank()]), -1);

        Bytes in_place = own;
        group.all_reduce(in_place.data(), in_place.data(), count, DataType::f32);
        EXPECT_EQ(first_difference(in_place, expected), -1) << "own memory, in place, " << count;

        const Buffer shared = group.allocate(own.size() + 1);
        std::copy(own.begin(), own.end(), shared.data());
        group.all_reduce(shared.data(), shared.data(), count, DataType::f32);
        EXPECT_EQ(first_difference(Bytes(shared.data(), shared.data() + own.size()), expected), -1)
            << "group memory, in place, " << count;
      }
    });
}

TEST_P(Reduce, ManyRanks) {
  for (const int size : {1, 6, 7, 8, 13})
    spawn(size, [&](Group& group) {
      for (const DataType type : {DataType::f32, DataType::bf16})
        for (const std::size_t count : {500ul, 20'000ul}) {
          const auto inputs = contributions(type, count, size);
          Bytes data = inputs[group.rank()];
          group.all_reduce(data.data(), data.data(), count, type, {.op = ReduceOp::average});
          EXPECT_EQ(
              first_difference(data, reference_reduce(type, inputs, {.op = ReduceOp::average})),
              -1);
        }
    });
}

TEST_P(Reduce, ScalesApplyBeforeAndAfter) {
  spawn(3, [&](Group& group) {
    for (const DataType type :
         {DataType::f32, DataType::f64, DataType::f16, DataType::bf16, DataType::i32})
      for (const std::size_t count : {100ul, 30'000ul}) {
        const ReferenceOptions options{ReduceOp::average, 0.3, type == DataType::i32 ? 2.0 : 1.7};
        const auto inputs = contributions(type, count, 3);
        Bytes data = inputs[group.rank()];
        group.all_reduce(
            data.data(), data.data(), count, type,
            {.op = options.op, .pre_scale = options.pre_scale, .post_scale = options.post_scale});
        EXPECT_EQ(first_difference(data, reference_reduce(type, inputs, options)), -1)
            << to_string(type);
      }
  });
}

TEST_P(Reduce, ReduceReachesTheRootOnly) {
  spawn(3, [&](Group& group) {
    for (const int root : {0, 2})
      for (const std::size_t count : {10ul, 1'200'000ul}) {
        const auto inputs = contributions(DataType::f32, count, 3);
        const Bytes& own = inputs[group.rank()];
        Bytes out(group.rank() == root ? own.size() : 0);
        group.reduce(own.data(), out.empty() ? nullptr : out.data(), count, DataType::f32, root);
        if (group.rank() == root) {
          EXPECT_EQ(first_difference(out, reference_reduce(DataType::f32, inputs, {})), -1);
        }
        EXPECT_EQ(first_difference(own, inputs[group.rank()]), -1);
      }
  });
}

TEST_P(Reduce, ReduceScatterGivesEachRankItsRun) {
  spawn(3, [&](Group& group) {
    for (const bool in_place : {false, true})
      for (const std::size_t count : {5ul, 1000ul, 450'000ul}) {
        const auto inputs = contributions(DataType::f32, count * 3, 3);
        const Bytes whole = reference_reduce(DataType::f32, inputs, {});
        const auto run = static_cast<std::ptrdiff_t>(count * 4);
        const Bytes expected(whole.begin() + run * group.rank(),
                             whole.begin() + run * (group.rank() + 1));
        Bytes in = inputs[group.rank()];
        Bytes separate(static_cast<std::size_t>(run));
        std::byte* out = in_place ? in.data() : separate.data();
        group.reduce_scatter(in.data(), out, count, DataType::f32);
        EXPECT_EQ(first_difference(Bytes(out, out + run), expected), -1)
            << count << " in place " << in_place;
      }
  });
}

TEST_P(Reduce, NaNOnOneRankReachesAll) {
  spawn(4, [&](Group& group) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::minimum, ReduceOp::maximum}) {
      std::vector<float> data(40, 1.0f);
      if (group.rank() == 2) data[33] = std::nanf("");
      group.all_reduce(std::span(data), {.op = op});
      EXPECT_TRUE(std::isnan(data[33])) << to_string(op);
      EXPECT_FALSE(std::isnan(data[32]));
    }
  });
}

TEST_P(Reduce, AsynchronousCallsRunInOrderAndOverlap) {
  spawn(2, [&](Group& group) {
    std::vector<std::vector<float>> data(20, std::vector<float>(10'000));
    std::vector<Work> works;
    for (std::size_t i = 0; i < data.size(); ++i) {
      std::fill(data[i].begin(), data[i].end(), static_cast<float>(i) + group.rank());
      works.push_back(
          group.all_reduce_async(data[i].data(), data[i].data(), data[i].size(), DataType::f32));
    }
    group.barrier();  // queues behind them
    for (std::size_t i = 0; i < data.size(); ++i) {
      EXPECT_TRUE(works[i].poll());
      works[i].wait(Deadline::after(kTimeout));
      EXPECT_EQ(data[i][9'999], 2 * static_cast<float>(i) + 1);
    }
  });
}

TEST_P(Reduce, SeveralGroupsSideBySide) {
  spawn(2, [&](Group& a) {
    const std::vector<int> both{0, 1};
    const auto b = a.subgroup(both);
    const auto c = a.subgroup(both);
    for (int i = 0; i < 50; ++i) {
      float x = 1, y = 2, z = 3;
      Work first = a.all_reduce_async(&x, &x, 1, DataType::f32);
      Work second = b->all_reduce_async(&y, &y, 1, DataType::f32);
      c->all_reduce(&z, &z, 1, DataType::f32);
      second.wait();
      first.wait();
      EXPECT_EQ(x + y + z, 12.0f);
    }
  });
}

}  // namespace
}  // namespace cohort::collective::testing

#include "cohort/parallel/tensors/ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/parallel/tensors/on_ranks_test.h"

namespace cohort::parallel {
namespace {

using collective::Group;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 3 ranks; rank r's tensor holds r, r + 1, ...
torch::Tensor numbers(const Group& group, c10::IntArrayRef shape,
                      torch::ScalarType type = torch::kFloat) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return (torch::arange(count) + group.rank()).reshape(shape).to(type);
}

void expect_equal(const torch::Tensor& found, const torch::Tensor& expected) {
  EXPECT_EQ(found.scalar_type(), expected.scalar_type());
  EXPECT_TRUE(found.sizes() == expected.sizes()) << found.sizes() << expected.sizes();
  EXPECT_TRUE(torch::equal(found.cpu(), expected)) << found << expected;
}

TEST(Ops, AllReduceSumsEveryTypeThatGroupsComputeWith) {
  on_ranks(3, [](Group& group) {
    for (const auto type : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16,
                            torch::kChar, torch::kByte, torch::kInt, torch::kLong})
      expect_equal(all_reduce(group, numbers(group, {2, 3}, type)),
                   (torch::arange(6) * 3 + 3).reshape({2, 3}).to(type));
    const torch::Tensor any = torch::tensor({group.rank() == 1, false});
    expect_equal(all_reduce(group, any), torch::tensor({true, false}));
  });
}

TEST(Ops, AllReduceLeavesItsInputAndTheNamesWithAnUnderscoreChangeIt) {
  on_ranks(3, [](Group& group) {
    torch::Tensor tensor = numbers(group, {4}).requires_grad_();
    const torch::Tensor result = all_reduce(group, tensor, {.op = ReduceOp::average});
    expect_equal(result, torch::arange(4).to(torch::kFloat) + 1);
    EXPECT_FALSE(result.requires_grad());
    expect_equal(tensor.detach(), numbers(group, {4}));
    all_reduce_(group, tensor, {.op = ReduceOp::maximum});
    expect_equal(tensor.detach(), torch::arange(4).to(torch::kFloat) + 2);
    EXPECT_TRUE(tensor.requires_grad());
  });
}

TEST(Ops, ScalesApplyBeforeAndAfterTheSum) {
  on_ranks(2, [](Group& group) {
    expect_equal(all_reduce(group, torch::full({2}, 3.0f), {.pre_scale = 2, .post_scale = 0.5}),
                 torch::full({2}, 6.0f));
  });
}

TEST(Ops, TensorsThatAreNotContiguousWork) {
  on_ranks(3, [](Group& group) {
    torch::Tensor whole = numbers(group, {4, 3});
    torch::Tensor columns = whole.t().slice(0, 0, 3, 2);  // rows 0 and 2 of the transpose
    const torch::Tensor expected = (torch::arange(12) * 3 + 3).reshape({4, 3}).to(torch::kFloat);
    expect_equal(all_reduce(group, columns), expected.t().slice(0, 0, 3, 2));
    all_reduce_(group, columns);
    expect_equal(columns, expected.t().slice(0, 0, 3, 2).contiguous());
    expect_equal(whole.select(1, 1), numbers(group, {4, 3}).select(1, 1));
    EXPECT_EQ(all_gather(group, columns.t()).sizes(), (std::vector<std::int64_t>{12, 2}));
  });
}

TEST(Ops, AsynchronousCallsRunInTheirOrder) {
  on_ranks(3, [](Group& group) {
    std::vector<PendingTensor> pending;
    for (int i = 0; i < 20; ++i)
      pending.push_back(all_reduce_async(group, torch::full({100}, i + group.rank())));
    torch::Tensor in_place = numbers(group, {2, 2}).t();
    PendingTensor last = all_reduce_async_(group, in_place);
    for (int i = 0; i < 20; ++i) expect_equal(pending[i].wait(), torch::full({100}, 3 * i + 3));
    expect_equal(last.wait(), (torch::arange(4) * 3 + 3).reshape({2, 2}).t().to(torch::kFloat));
    EXPECT_TRUE(last.poll());
    expect_equal(in_place, last.wait());
  });
}

TEST(Ops, AGroupOfTensorsHasTheBitsOfOneByOne) {
  on_ranks(3, [](Group& group) {
    std::vector<torch::Tensor> tensors = {
        torch::rand({3, 5}) / 3, numbers(group, {7}, torch::kLong), torch::rand({2, 2}).t(),
        torch::rand({0, 4}), torch::rand({}).to(torch::kDouble)};
    const auto together = grouped_all_reduce(group, tensors, {.op = ReduceOp::sum});
    for (std::size_t i = 0; i < tensors.size(); ++i)
      expect_equal(together[i], all_reduce(group, tensors[i]));
  });
}

TEST(Ops, BroadcastMovesAnyType) {
  on_ranks(3, [](Group& group) {
    for (const auto type : {torch::kFloat, torch::kShort, torch::kComplexFloat, torch::kBool})
      expect_equal(broadcast(group, numbers(group, {2, 2}, type), 2),
                   (torch::arange(4) + 2).reshape({2, 2}).to(type));
  });
}

TEST(Ops, AllGatherTakesDifferentFirstDimensions) {
  on_ranks(3, [](Group& group) {
    const torch::Tensor mine = torch::full({group.rank(), 2}, group.rank(), torch::kShort);
    expect_equal(all_gather(group, mine),
                 torch::tensor({1, 1, 2, 2, 2, 2}, torch::kShort).reshape({3, 2}));
    expect_equal(all_gather(group, torch::tensor(group.rank() * 1.5)),
                 torch::tensor({0.0, 1.5, 3.0}, torch::tensor(1.5).options()));
  });
}

TEST(Ops, RowsThatDoNotFitAreNamedOnEveryRankAndTheGroupIsIntact) {
  on_ranks(3, [](Group& group) {
    const torch::Tensor wrong = torch::zeros({2, group.rank() == 1 ? 5 : 4});
    EXPECT_THAT(
        message_of<InvalidInput>([&] { all_gather(group, wrong); }),
        AllOf(HasSubstr("rank 1 gives Float rows of [5]"), HasSubstr("rank 0"), HasSubstr("[4]")));
    EXPECT_THAT(message_of<InvalidInput>([&] { all_to_all(group, wrong); }), HasSubstr("rank 1"));
    EXPECT_EQ(all_reduce(group, torch::ones({1})).item<float>(), 3);
  });
}

TEST(Ops, ReduceScatterGivesTheFirstRanksOneRowMore) {
  on_ranks(3, [](Group& group) {
    const torch::Tensor all = (torch::arange(8) * 3 + 3).reshape({4, 2}).to(torch::kFloat);
    const std::array<std::int64_t, 4> begin = {0, 2, 3, 4};
    const auto r = static_cast<std::size_t>(group.rank());
    expect_equal(reduce_scatter(group, numbers(group, {4, 2})),
                 all.slice(0, begin[r], begin[r + 1]).contiguous());
    EXPECT_EQ(reduce_scatter(group, numbers(group, {2, 2})).size(0), group.rank() < 2 ? 1 : 0);
  });
}

TEST(Ops, AllToAllSendsEachRankItsRows) {
  on_ranks(3, [](Group& group) {
    // Rank r sends s + 1 rows with the number 10 r + s to rank s.
    std::vector<torch::Tensor> rows;
    for (int s = 0; s < 3; ++s) rows.push_back(torch::full({s + 1, 2}, 10 * group.rank() + s));
    const auto [tensor, received] = all_to_all(group, torch::cat(rows), {1, 2, 3});
    const std::int64_t mine = group.rank() + 1;
    EXPECT_THAT(received, ElementsAre(mine, mine, mine));
    std::vector<torch::Tensor> expected;
    for (int r = 0; r < 3; ++r) expected.push_back(torch::full({mine, 2}, 10 * r + group.rank()));
    expect_equal(tensor, torch::cat(expected));
    expect_equal(all_to_all(group, numbers(group, {3})).tensor,
                 torch::arange(3).to(torch::kFloat) + group.rank());
  });
}

TEST(Ops, SplitsThatDoNotAddUpAreNamedOnEveryRank) {
  on_ranks(2, [](Group& group) {
    const std::vector<std::int64_t> splits =
        group.rank() == 1 ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{2, 2};
    EXPECT_THAT(message_of<InvalidInput>([&] { all_to_all(group, torch::zeros({4}), splits); }),
                HasSubstr("rank 1 has splits that do not add up to its 4 rows"));
    EXPECT_THAT(message_of<InvalidInput>([&] { all_to_all(group, torch::zeros({3})); }),
                HasSubstr("has 3 rows, which 2 ranks cannot share evenly"));
    EXPECT_THAT(message_of<InvalidInput>([&] { all_to_all(group, torch::zeros({3}), {3}); }),
                HasSubstr("has 1 splits for 2 ranks"));
  });
}

TEST(Ops, TypesThatCannotBeReducedAreNamed) {
  on_ranks(2, [](Group& group) {
    for (const auto type : {torch::kShort, torch::kComplexFloat})
      EXPECT_THAT(message_of<InvalidInput>([&] { all_reduce(group, torch::zeros({2}, type)); }),
                  AllOf(HasSubstr(torch::toString(type)), HasSubstr("cannot be reduced")));
    EXPECT_THAT(message_of<InvalidInput>([&] { all_reduce_(group, torch::Tensor()); }),
                HasSubstr("undefined"));
    EXPECT_THAT(message_of<InvalidInput>(
                    [&] { grouped_all_reduce_(group, {torch::zeros({2}, torch::kShort)}); }),
                HasSubstr("Short"));
  });
}

TEST(Ops, SubGroupsAreProcessSets) {
  on_ranks(3, [](Group& group) {
    if (group.rank() == 1) return;
    const std::array<int, 2> ranks = {0, 2};
    auto pair = group.subgroup(ranks);
    expect_equal(all_reduce(*pair, numbers(group, {2}, torch::kLong)), torch::tensor({2, 4}));
    barrier(*pair);
  });
}

TEST(Ops, AloneEverythingReturnsItsInput) {
  on_ranks(1, [](Group& group) {
    const torch::Tensor tensor = torch::rand({3, 2});
    expect_equal(all_reduce(group, tensor, {.op = ReduceOp::average}), tensor);
    expect_equal(all_gather(group, tensor), tensor);
    expect_equal(reduce_scatter(group, tensor), tensor);
    expect_equal(all_to_all(group, tensor).tensor, tensor);
  });
}

TEST(Ops, GpuTensorsStayOnTheirGpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU here";
  on_ranks(2, [](Group& group) {
    const torch::Tensor tensor = numbers(group, {4, 2}).to(torch::kCUDA);
    const torch::Tensor sum = all_reduce(group, tensor);
    EXPECT_TRUE(sum.is_cuda());
    expect_equal(sum, (torch::arange(8) * 2 + 1).reshape({4, 2}).to(torch::kFloat));
    EXPECT_TRUE(all_gather(group, tensor).is_cuda());
    EXPECT_TRUE(reduce_scatter(group, tensor).is_cuda());
    EXPECT_TRUE(all_to_all(group, tensor).tensor.is_cuda());
    torch::Tensor moved = tensor.clone();
    broadcast_(group, moved, 1);
    expect_equal(moved, (torch::arange(8) + 1).reshape({4, 2}).to(torch::kFloat));
    expect_equal(all_reduce_async(group, tensor).wait(), sum.cpu());
  });
}

}  // namespace
}  // namespace cohort::parallel

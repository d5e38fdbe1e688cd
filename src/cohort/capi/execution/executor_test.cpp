#include "cohort/capi/execution/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "cohort/capi/requests/on_ranks_test.h"

namespace cohort::capi {
namespace {

using testing::Each;
using testing::ElementsAre;

// Carries out one request on every rank, each of which has made it alike.
template <typename T>
void run(collective::Group& group, Signature signature, const std::vector<T>& in,
         std::vector<T>& out) {
  signature.name = "x";
  Executor executor(group, {});
  auto request = std::make_shared<Request>();
  request->signature = std::make_shared<Signature>(signature);
  request->memory = {
      {reinterpret_cast<const std::byte*>(in.data()), reinterpret_cast<std::byte*>(out.data())}};
  std::vector<Task> tasks(1);
  tasks[0].unit = {.kind = signature.kind,
                   .name = "x",
                   .ranks = std::vector<SignatureRef>(static_cast<std::size_t>(group.size()),
                                                      request->signature),
                   .mismatch = {}};
  tasks[0].request = request;
  executor.run(tasks, [](Task&) {});
  if (request->results.empty()) return;
  out.resize(TensorType{signature.tensors[0].dtype, request->results[0].shape}.elements());
  if (!out.empty()) std::memcpy(out.data(), request->results[0].memory, out.size() * sizeof(T));
}

template <typename T>
std::vector<T> reduced(collective::Group& group, std::int32_t dtype, std::int32_t op,
                       std::vector<T> in) {
  Signature signature;
  signature.op = op;
  signature.tensors = {{dtype, {static_cast<std::int64_t>(in.size())}}};
  std::vector<T> out(in.size());
  run(group, signature, in, out);
  return out;
}

TEST(Executor, ReducesEveryTypeThatIsReduced) {
  on_ranks(2, [](auto group) {
    const int rank = group->rank();
    EXPECT_THAT((reduced<std::int8_t>(*group, COHORT_I8, COHORT_SUM, {-3, 4})), ElementsAre(-6, 8));
    EXPECT_THAT((reduced<std::uint8_t>(*group, COHORT_U8, COHORT_MAX,
                                       {static_cast<std::uint8_t>(200 + rank)})),
                ElementsAre(201));
    EXPECT_THAT((reduced<std::int32_t>(*group, COHORT_I32, COHORT_PRODUCT, {rank + 2})),
                ElementsAre(6));
    EXPECT_THAT((reduced<std::int64_t>(*group, COHORT_I64, COHORT_MIN, {rank})), ElementsAre(0));
    EXPECT_THAT((reduced<std::int64_t>(*group, COHORT_I64, COHORT_AVERAGE, {rank + 2})),
                ElementsAre(2));
    EXPECT_THAT((reduced<std::uint8_t>(*group, COHORT_BOOL, COHORT_SUM,
                                       {static_cast<std::uint8_t>(rank), 0})),
                ElementsAre(1, 0));
    EXPECT_THAT((reduced<double>(*group, COHORT_F64, COHORT_AVERAGE, {rank + 0.5})),
                ElementsAre(1.0));
  });
}

TEST(Executor, OverlappingMemoryIsReducedAsIfItWereApart) {
  on_ranks(2, [](auto group) {
    std::vector<float> values = {1, 2, 3, 4, 5};
    Signature signature;
    signature.tensors = {{COHORT_F32, {4}}};
    signature.name = "x";
    Executor executor(*group, {});
    auto request = std::make_shared<Request>();
    request->signature = std::make_shared<Signature>(signature);
    request->memory = {{reinterpret_cast<const std::byte*>(values.data()),
                        reinterpret_cast<std::byte*>(values.data() + 1)}};
    std::vector<Task> tasks(1);
    tasks[0].unit = {
        .name = "x", .ranks = {request->signature, request->signature}, .mismatch = {}};
    tasks[0].request = request;
    executor.run(tasks, [](Task&) {});
    EXPECT_THAT(values, ElementsAre(1.0f, 2.0f, 4.0f, 6.0f, 8.0f));
  });
}

TEST(Executor, ScattersRowsThatTheRanksDoNotDivide) {
  on_ranks(3, [](auto group) {
    for (const std::int64_t rows : {0, 1, 2, 3, 4, 8}) {
      Signature signature;
      signature.kind = Kind::reduce_scatter;
      signature.tensors = {{COHORT_F32, {rows, 2}}};
      std::vector<float> in(static_cast<std::size_t>(2 * rows)), out;
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
      run(*group, signature, in, out);
      const std::int64_t rank = group->rank();
      const std::int64_t own = rows / 3 + (rank < rows % 3 ? 1 : 0);
      const std::int64_t before = rank * (rows / 3) + std::min(rank, rows % 3);
      ASSERT_EQ(out.size(), static_cast<std::size_t>(2 * own)) << rows;
      for (std::size_t i = 0; i < out.size(); ++i)
        EXPECT_EQ(out[i], 3 * static_cast<float>(2 * before + static_cast<std::int64_t>(i)));
    }
  });
}

TEST(Executor, GathersScalarsAndNothing) {
  on_ranks(2, [](auto group) {
    Signature signature;
    signature.kind = Kind::all_gather;
    signature.tensors = {{COHORT_F32, {}}};
    std::vector<float> out;
    run<float>(*group, signature, {static_cast<float>(group->rank())}, out);
    EXPECT_THAT(out, ElementsAre(0.0f, 1.0f));
    signature.tensors = {{COHORT_F32, {0, 4}}};
    run<float>(*group, signature, {}, out);
    EXPECT_THAT(out, testing::IsEmpty());
  });
}

TEST(Executor, ARankThatHasJoinedBringsZeros) {
  on_ranks(2, [](auto group) {
    Signature signature;
    signature.name = "x";
    signature.tensors = {{COHORT_F32, {3}}, {COHORT_F32, {(1 << 18) + 1}}};
    const auto made = std::make_shared<Signature>(signature);
    std::vector<float> small(3, 1), large((1 << 18) + 1, 1);
    std::vector<Task> tasks(1);
    tasks[0].unit = {.name = "x", .ranks = {made, nullptr}, .mismatch = {}};
    if (group->rank() == 0) {
      tasks[0].request = std::make_shared<Request>();
      tasks[0].request->signature = made;
      for (auto* values : {&small, &large}) {
        auto* memory = reinterpret_cast<std::byte*>(values->data());
        tasks[0].request->memory.push_back({memory, memory});
      }
    }
    Executor executor(*group, {});
    executor.run(tasks, [](Task&) {});
    EXPECT_THAT(small, Each(1.0f));
    EXPECT_THAT(large, Each(1.0f));
  });
}

}  // namespace
}  // namespace cohort::capi

// GradientSync with a sink: a worker of parameter servers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "cohort/base/error.h"
#include "cohort/collective/form.h"
#include "cohort/parallel/gradients/gradient_sync.h"

namespace cohort::parallel {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// Worker 1 of 2 with shards 2 and 3 of 4, which are one node of the tree; a bucket a parameter.
struct PushingWorker {
  PushingWorker()
      : group(collective::make_group_of_one()),
        first(torch::zeros({4}, torch::requires_grad())),
        second(torch::zeros({4}, torch::requires_grad())),
        sync(*group, {{"first", first}, {"second", second}},
             [this](std::size_t bucket, std::span<const std::byte* const> partials) {
               ASSERT_EQ(partials.size(), 1u);
               const int parameter = sync.layouts()[bucket].entries[0].parameter;
               EXPECT_FALSE(pushed.contains(sync.names()[parameter]));
               pushed[sync.names()[parameter]] = *reinterpret_cast<const float*>(partials[0]);
             },
             {.bucket_bytes = 1, .first_bucket_bytes = 1, .shards = 4, .rank = 1, .size = 2}) {}

  void run_shard(int shard, float of_first, float of_second) {
    sync.begin_shard(shard);
    (of_first * first + of_second * second).sum().backward();
  }

  std::unique_ptr<collective::Group> group;
  torch::Tensor first, second;
  std::map<std::string, float> pushed;  // by parameter: its first element
  GradientSync sync;
};

TEST(GradientPush, HandsTheSumOfOwnShardsOverWhileTheLastBackwardRuns) {
  PushingWorker worker;
  EXPECT_EQ(worker.sync.first_shard(), 2);
  EXPECT_EQ(worker.sync.shard_count(), 2);
  for (int step = 0; step < 3; ++step) {
    worker.pushed.clear();
    worker.run_shard(2, 1, 10);
    worker.sync.end_shard();
    EXPECT_TRUE(worker.pushed.empty());
    worker.run_shard(3, 2, 20);
    EXPECT_THAT(worker.pushed, UnorderedElementsAre(Pair("first", 3), Pair("second", 30)));
    worker.sync.end_shard();
    worker.sync.finish(Deadline::after(std::chrono::nanoseconds(0)));  // nothing to wait for
  }
}

TEST(GradientPush, BucketsStayAsFirstMade) {
  PushingWorker worker;
  const auto order = [&] {
    std::vector<int> parameters;
    for (const BucketLayout& layout : worker.sync.layouts())
      parameters.push_back(layout.entries[0].parameter);
    return parameters;
  };
  EXPECT_EQ(order(), (std::vector<int>{1, 0}));
  // `first` gets its gradient before `second`.
  for (const int shard : {2, 3}) {
    worker.sync.begin_shard(shard);
    (worker.second * 2 + (worker.second.detach() + worker.first)).sum().backward();
    worker.sync.end_shard();
  }
  worker.sync.finish(Deadline::never());
  worker.run_shard(2, 1, 1);
  EXPECT_EQ(order(), (std::vector<int>{1, 0}));
}

TEST(GradientPush, AParameterWithoutGradientIsNamed) {
  PushingWorker worker;
  for (const int shard : {2, 3}) {
    worker.sync.begin_shard(shard);
    worker.first.sum().backward();
    worker.sync.end_shard();
  }
  try {
    worker.sync.finish(Deadline::never());
    ADD_FAILURE() << "no error";
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("no gradient for second in shard 2"));
  }
}

}  // namespace
}  // namespace cohort::parallel

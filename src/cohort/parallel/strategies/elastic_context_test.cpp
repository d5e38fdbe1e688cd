// A program of an elastic job: it has no group until it trains.
#include <gmock/gmock.h>

#include <thread>

#include "cohort/base/message_of_test.h"
#include "cohort/base/process/run_main.h"
#include "cohort/membership/group/elastic_memberships_test.h"
#include "cohort/parallel/strategies/context.h"

namespace cohort {
namespace {

using membership::elastic_environment;
using membership::ElasticJob;
using membership::soon;
using parallel::Replica;
using ::testing::HasSubstr;

TEST(ElasticContext, FollowsTheViewOnceItTrains) {
  ElasticJob job({.least = 1, .most = 3, .initial = 2});
  std::vector<std::jthread> workers;
  for (int index = 0; index < 2; ++index)
    workers.emplace_back([&job, index] {
      Context context = init(elastic_environment(job, index, 3), {});
      EXPECT_EQ(context.rank(), index);
      EXPECT_EQ(context.size(), 3);
      EXPECT_THAT(message_of<InvalidInput>([&] { context.group(); }), HasSubstr("elastic::run"));
      auto strategy = context.strategy();
      EXPECT_EQ(strategy->name(), "multi_worker_mirrored");
      EXPECT_EQ(strategy->workers(), 3);
      EXPECT_EQ(strategy->shards(), 3);
      EXPECT_FALSE(strategy->has_group());
      strategy->run([&](const Replica& replica) {
        EXPECT_EQ(replica.group, nullptr);
        ASSERT_NE(replica.elastic, nullptr);
        replica.elastic->enter("{}", soon());
        std::int64_t sum = 1;
        context.group().all_reduce(std::span(&sum, 1));
        EXPECT_EQ(sum, 2);
      });
      EXPECT_EQ(context.size(), 2);
      EXPECT_EQ(strategy->workers(), 2);
      EXPECT_EQ(strategy->worker(), context.rank());
      EXPECT_EQ(strategy->shards(), 3);
      EXPECT_EQ(context.is_chief(), context.rank() == 0);
      strategy->run([&](const Replica& replica) { EXPECT_EQ(replica.group, &context.group()); });
      context.leave(soon());
      EXPECT_THROW(strategy->run([](const Replica&) {}), InvalidInput);
    });
}

TEST(ElasticContext, AnErrorBeforeThereIsAGroupIsTheProgramsOwn) {
  ElasticJob job({.least = 1, .most = 2, .initial = 1});
  Context context = init(elastic_environment(job, 0, 2), {});
  EXPECT_THAT(message_of<Error>([&] {
                context.strategy()->run([](const Replica&) { throw Error("no such file"); });
              }),
              HasSubstr("no such file"));
}

TEST(ElasticContext, WhatCannotBeElasticIsRefusedByName) {
  ElasticJob job({.least = 1, .most = 2, .initial = 1});
  const auto refusal = [&](const char* flag) {
    return message_of<InvalidInput>([&] { init(elastic_environment(job, 0, 2), {flag}); });
  };
  EXPECT_THAT(refusal("--distribution_strategy=one_device"), HasSubstr("one_device"));
  EXPECT_THAT(refusal("--distribution_strategy=mirrored"), HasSubstr("mirrored"));
  EXPECT_THAT(refusal("--distribution_strategy=parameter_server"), HasSubstr("parameter_server"));
  EXPECT_THAT(refusal("--num_replicas=2"), HasSubstr("--num_replicas is 2"));
  EXPECT_THAT(refusal("--num_gpus=2"), HasSubstr("--num_gpus is 2"));
}

TEST(ElasticContext, ADismissedProgramEndsWell) {
  EXPECT_EQ(run_main("test", []() -> int { throw membership::Dismissed("too many workers"); }), 0);
  EXPECT_EQ(run_main("test", []() -> int { throw PeerError("lost"); }), 1);
}

}  // namespace
}  // namespace cohort

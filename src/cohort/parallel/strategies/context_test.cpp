// Workers as threads of this process that meet in a store, as processes do.
#include "cohort/parallel/strategies/context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/process/machine.h"
#include "cohort/parallel/strategies/worker_threads_test.h"

namespace cohort {
namespace {

using cluster::Environment;
using Job = parallel::WorkerThreads;
using parallel::Replica;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::int64_t sum_of_ranks(const Replica& replica) {
  std::int64_t sum = replica.rank;
  replica.group->all_reduce(std::span(&sum, 1));
  return sum;
}

TEST(Context, AProgramWithoutLauncherIsAlone) {
  Context context = init(Environment{}, {"--epochs=3"});
  EXPECT_EQ(context.rank(), 0);
  EXPECT_EQ(context.size(), 1);
  EXPECT_TRUE(context.is_chief());
  EXPECT_FALSE(context.is_service());
  EXPECT_EQ(context.group().size(), 1);
  EXPECT_THAT(context.arguments(), ElementsAre("--epochs=3"));
  auto strategy = context.strategy();
  EXPECT_EQ(strategy->name(), "one_device");
  EXPECT_EQ(strategy, context.strategy());
  int runs = 0;
  strategy->run([&](const Replica& replica) {
    ++runs;
    EXPECT_EQ(replica.size, 1);
    EXPECT_TRUE(replica.device.is_cpu());
  });
  EXPECT_EQ(runs, 1);
  context.leave();
}

TEST(Context, AloneLibTorchsThreadsAreTheProgramsOwn) {
  at::set_num_threads(3);
  Context context = init(Environment{}, {});
  EXPECT_EQ(at::get_num_threads(), 3);
  context.strategy()->run([](const Replica&) { EXPECT_EQ(at::get_num_threads(), 1); });
  EXPECT_EQ(at::get_num_threads(), 3);
  context.leave();
  init(Environment{}, {"--threads=2"}).leave();
  EXPECT_EQ(at::get_num_threads(), 2);
  at::set_num_threads(1);
}

TEST(Context, AWorkerOfSeveralHasItsShareOfTheCoresUnlessToldOtherwise) {
  const int share = std::max(1, usable_cores() / 2);
  at::set_num_threads(share + 5);
  EXPECT_THAT(Job().run(2, {}, [&](Context&) { EXPECT_EQ(at::get_num_threads(), share); }),
              ElementsAre("", ""));
  EXPECT_THAT(Job().run(2, {"--threads=7"}, [](Context&) { EXPECT_EQ(at::get_num_threads(), 7); }),
              ElementsAre("", ""));
  at::set_num_threads(1);
}

TEST(Context, ALoopOnTheContextDoesNotIgnoreReplicas) {
  Context context = init(Environment{}, {"--num_replicas=2"});
  EXPECT_THAT(message_of<InvalidInput>([&] { context.group(); }),
              AllOf(HasSubstr("2 replicas a worker were asked for"), HasSubstr("--num_replicas")));
  context.strategy();
  EXPECT_EQ(context.group().size(), 1);
  context.leave();
}

TEST(Context, MirroredReplicasShareOneProcess) {
  Context context = init(Environment{}, {"--distribution_strategy=mirrored", "--num_replicas=3"});
  auto strategy = context.strategy();
  EXPECT_EQ(strategy->name(), "mirrored");
  EXPECT_EQ(strategy->replicas(), 3);
  strategy->run([](const Replica& replica) { EXPECT_EQ(sum_of_ranks(replica), 3); });
  strategy->run([](const Replica& replica) { EXPECT_EQ(replica.rank, replica.local); });
  context.leave();
}

TEST(Context, WorkersTrainTogetherByDefault) {
  const auto errors = Job().run(3, {}, [](Context& context) {
    auto strategy = context.strategy();
    EXPECT_EQ(strategy->name(), "multi_worker_mirrored");
    EXPECT_EQ(strategy->workers(), 3);
    EXPECT_EQ(strategy->worker(), context.rank());
    strategy->run([&](const Replica& replica) {
      EXPECT_EQ(replica.rank, context.rank());
      EXPECT_EQ(replica.group, &context.group());
      EXPECT_EQ(sum_of_ranks(replica), 3);
    });
  });
  EXPECT_THAT(errors, ElementsAre("", "", ""));
}

TEST(Context, WorkersWithSeveralReplicasFormOneGroupOfAll) {
  const auto errors = Job().run(2, {"--num_replicas=2"}, [](Context& context) {
    auto strategy = context.strategy();
    EXPECT_EQ(strategy->replicas(), 4);
    strategy->run([&](const Replica& replica) {
      EXPECT_EQ(replica.size, 4);
      EXPECT_EQ(replica.rank, context.rank() * 2 + replica.local);
      EXPECT_EQ(sum_of_ranks(replica), 6);
      auto pair = replica.group->split(replica.local);
      EXPECT_EQ(pair->size(), 2);
    });
  });
  EXPECT_THAT(errors, ElementsAre("", ""));
}

TEST(Context, OneReplicasErrorReachesTheReplicasOfOtherWorkers) {
  const auto errors = Job().run(2, {"--num_replicas=2"}, [](Context& context) {
    context.strategy()->run([&](const Replica& replica) {
      if (replica.rank == 3) throw std::runtime_error("the disk is full");
      while (true) sum_of_ranks(replica);
    });
  });
  EXPECT_EQ(errors[1], "the disk is full");
  EXPECT_THAT(errors[0], HasSubstr("replica 3 of 4 stopped: the disk is full"));
}

TEST(Context, WorkersWithOtherFlagsAreNamed) {
  Job job;
  std::vector<std::string> errors(2);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        Context context =
            init(job.environment(rank, 2), {"--num_replicas=" + std::to_string(rank + 1)});
        errors[static_cast<std::size_t>(rank)] =
            message_of<InvalidInput>([&] { context.strategy(); });
        context.leave();
      });
  }
  for (const std::string& error : errors)
    EXPECT_THAT(error, AllOf(HasSubstr("worker 1"), HasSubstr("2 replicas"), HasSubstr("flags")));
}

TEST(Context, RefusesAtOnceAStrategyThatDoesNotFitTheJob) {
  // No process listens there: the refusal comes before anything is joined.
  const Environment environment = {
      {"COHORT_RANK", "0"}, {"COHORT_SIZE", "2"}, {"COHORT_STORE", "127.0.0.1:1"}};
  EXPECT_THAT(message_of<InvalidInput>([&] {
                init(environment, {"--distribution_strategy", "one_device"});
              }),
              AllOf(HasSubstr("one_device"), HasSubstr("2 workers")));
}

TEST(Context, TheLaunchersStrategyCountsWhereNoFlagIsGiven) {
  Context context = init({{"COHORT_STRATEGY", "parameter_server"}}, {});
  EXPECT_THAT(message_of<InvalidInput>([&] { context.strategy(); }), HasSubstr("needs ps tasks"));
  EXPECT_THAT(message_of<InvalidInput>([&] { context.group(); }),
              HasSubstr("workers form no group"));
  context.leave();
  Context other = init({{"COHORT_STRATEGY", "parameter_server"}}, {"--distribution_strategy=off"});
  EXPECT_EQ(other.strategy()->name(), "one_device");
  other.leave();
}

TEST(Context, TakesTheSchedulersArgumentsToo) {
  Context context = init(Environment{}, {"--job_name=worker", "--task_index=0", "--epochs=3",
                                         "--worker_hosts=localhost:1"});
  EXPECT_THAT(context.arguments(), ElementsAre("--epochs=3"));
  EXPECT_EQ(context.role().dialect, "scheduler arguments");
  context.leave();
}

// A ps or evaluator of a cluster with one worker.
Environment in_cluster(const std::string& type, const cluster::Address& store) {
  return {{"COHORT_TASK_TYPE", type},
          {"COHORT_TASK_INDEX", "0"},
          {"COHORT_CLUSTER", R"({"worker": ["localhost:1"], "ps": ["localhost:2"],
                                 "evaluator": ["localhost:3"]})"},
          {"COHORT_STORE", to_string(store)},
          {"COHORT_JOB", "test"}};
}

TEST(Context, ServicesServeUntilEveryWorkerIsDone) {
  cluster::StoreServer store;
  std::vector<std::jthread> services;
  for (const char* type : {"ps", "evaluator"})
    services.emplace_back([&, type] {
      Context context = init(in_cluster(type, store.address()), {"--num_replicas=2"});
      EXPECT_TRUE(context.is_service());
      EXPECT_THAT(message_of<InvalidInput>([&] { context.group(); }), HasSubstr("does not train"));
      EXPECT_EQ(context.serve(Deadline::after(std::chrono::minutes(1))), 0);
    });
  Context worker = init(in_cluster("worker", store.address()), {});
  EXPECT_THAT(message_of<InvalidInput>([&] { worker.serve(); }), HasSubstr("cannot serve"));
  worker.leave();
}

TEST(Context, AServiceNamesTheWorkerThatWasLost) {
  cluster::StoreServer store;
  std::jthread service([&] {
    Context context = init(in_cluster("ps", store.address()), {});
    EXPECT_THAT(message_of<PeerError>([&] { context.serve(); }), HasSubstr("worker/0 left"));
  });
  EXPECT_THROW(
      {
        Context worker = init(in_cluster("worker", store.address()), {});
        throw std::runtime_error("the disk is full");
      },
      std::runtime_error);
}

TEST(Context, AProgramThatEndsLeavesItsJob) {
  cluster::StoreServer store;
  std::jthread service([&] {
    Context context = init(in_cluster("ps", store.address()), {});
    EXPECT_EQ(context.serve(Deadline::after(std::chrono::minutes(1))), 0);
  });
  const auto body = [&] {
    Context worker = init(in_cluster("worker", store.address()), {});
    const Context copy = worker;
    try {
      throw std::runtime_error("caught inside the program");
    } catch (const std::runtime_error&) {
    }
  };
  body();
}

// A program may have a job from beginning to end while an exception is on its way: it counts what
// came after init().
TEST(Context, AnExceptionFromBeforeTheJobIsNotItsFailure) {
  cluster::StoreServer store;
  std::jthread service([&] {
    Context context = init(in_cluster("ps", store.address()), {});
    EXPECT_EQ(context.serve(Deadline::after(std::chrono::minutes(1))), 0);
  });
  struct Job {
    ~Job() { Context worker = init(in_cluster("worker", address), {}); }
    cluster::Address address;
  };
  try {
    const Job job{store.address()};
    throw std::runtime_error("on its way");
  } catch (const std::runtime_error&) {
  }
}

TEST(Context, LeavingTwiceIsLeavingOnce) {
  Context context = init(Environment{}, {});
  context.leave();
  EXPECT_NO_THROW(context.leave());
}

TEST(Context, NothingWorksAfterLeave) {
  Context context = init(Environment{}, {});
  auto strategy = context.strategy();
  context.leave();
  EXPECT_THAT(message_of<InvalidInput>([&] { context.group(); }), HasSubstr("has left"));
  EXPECT_THAT(message_of<InvalidInput>([&] { strategy->run([](const Replica&) {}); }),
              HasSubstr("left its job"));
}

}  // namespace
}  // namespace cohort

// Own loops in an elastic job, with its workers as threads of this process.
#include "cohort/train/elastic/run.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <latch>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/cluster/store/store_server.h"
#include "cohort/parallel/tensors/ops.h"
#include "cohort/train/data/elastic_sampler.h"
#include "cohort/train/elastic/elastic_workers_test.h"

namespace cohort::elastic {
namespace {

using testing::ElasticWorkers;
using testing::Killed;

constexpr std::int64_t kSamples = 240;
constexpr int kEpochs = 2;

// One worker's training: counts, in the state, how often each sample has entered.
struct Training {
  torch::Tensor seen = torch::zeros({kEpochs, kSamples}, torch::kInt64);
  torch::Tensor weight = torch::rand({5});
  train::ElasticSampler sampler{kSamples, {.batch_size = 12}};
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  int calls = 0;
  int resets = 0;
  State state;

  Training() {
    state.register_tensor("seen", seen);
    state.register_tensor("weight", weight);
    state.register_sampler("sampler", sampler);
    state.register_value("epoch", epoch);
    state.register_value("step", step);
    state.register_reset_callbacks({[this] { ++resets; }});
  }

  using Hook = std::function<void(std::int64_t step, Training&)>;
  void operator()(Context& context, const Hook& before_reduce, const Hook& before_commit) {
    ++calls;
    for (; epoch < kEpochs; ++epoch) {
      sampler.set_epoch(epoch);
      while (sampler.batches() > 0) {
        torch::Tensor now = torch::zeros({kSamples}, torch::kInt64);
        for (const std::int64_t index : sampler.batch()) now[index] += 1;
        before_reduce(step, *this);
        parallel::all_reduce_(context.group(), now);
        seen[epoch] += now;
        weight.mul_(1.01).add_(now.sum().item<double>());
        sampler.record_batch();
        ++step;
        before_commit(step, *this);
        state.commit();
      }
    }
  }
  bool each_once() const { return seen.eq(1).all().item<bool>(); }
};

void nothing(std::int64_t, Training&) {}

using Trainings = std::array<Training, 4>;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

void train_in(
    Context& context, Training& training, const Training::Hook& before_reduce = nothing,
    const Training::Hook& before_commit = nothing,
    const std::function<void()>& at_the_end = [] {}) {
  run(context, training.state, [&](State&) {
    training(context, before_reduce, before_commit);
    at_the_end();
  });
}

TEST(ElasticRun, WithoutLossesTheLoopRunsOnceAndAllEndAlike) {
  ElasticWorkers job(/*initial=*/3, /*most=*/3);
  Trainings trainings;
  for (int i = 0; i < 3; ++i)
    job.start(i, [&, i](Context& context) { train_in(context, trainings[i]); });
  EXPECT_THAT(job.wait(),
              ElementsAre(Pair("worker/0.0", ""), Pair("worker/1.0", ""), Pair("worker/2.0", "")));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(trainings[i].each_once());
    EXPECT_TRUE(trainings[i].weight.equal(trainings[0].weight));
    EXPECT_EQ(trainings[i].calls, 1);
    EXPECT_EQ(trainings[i].resets, 0);
  }
}

// Before the step's collective: the step is done again. After it: the step is committed by those
// who have it.
TEST(ElasticRun, AWorkerThatIsKilledCostsNoSample) {
  for (const bool reduced : {false, true}) {
    for (const int victim : {0, 2}) {
      ElasticWorkers job(/*initial=*/3, /*most=*/3);
      Trainings trainings;
      const Training::Hook die = [](std::int64_t step, Training&) {
        if (step == 7) throw Killed();
      };
      for (int i = 0; i < 3; ++i)
        job.start(i, [&, i](Context& context) {
          train_in(context, trainings[i], i == victim && !reduced ? die : nothing,
                   i == victim && reduced ? die : nothing);
        });
      for (const auto& [name, ending] : job.wait())
        EXPECT_EQ(ending, name == fmt::format("worker/{}.0", victim) ? "killed" : "") << name;
      for (int i = 0; i < 3; ++i) {
        if (i == victim) continue;
        EXPECT_TRUE(trainings[i].each_once()) << trainings[i].seen;
        EXPECT_TRUE(trainings[i].weight.equal(trainings[victim == 0 ? 1 : 0].weight));
        EXPECT_EQ(trainings[i].calls, 2);
        EXPECT_EQ(trainings[i].resets, 1);
      }
    }
  }
}

TEST(ElasticRun, AWorkerThatComesAgainGetsTheStateAndTakesItsShare) {
  ElasticWorkers job(/*initial=*/3, /*most=*/3);
  Trainings trainings;
  Training again;
  std::atomic<std::size_t> samples_of_the_newcomer = 0;
  for (int i = 0; i < 2; ++i)
    job.start(i, [&, i](Context& context) {
      train_in(context, trainings[i], nothing, [&](std::int64_t step, Training&) {
        if (step == 12) ElasticWorkers::await_newcomer(context, "worker/2", 1);
      });
    });
  const auto first_time = [&](Context& context) {
    train_in(context, trainings[2], [&](std::int64_t step, Training&) {
      if (step == 7) throw Killed();
    });
  };
  const auto second_time = [&](Context& context) {
    train_in(context, again, [&](std::int64_t step, Training& training) {
      EXPECT_GE(step, 7);
      samples_of_the_newcomer += training.sampler.batch().size();
    });
  };
  job.start(2, first_time, second_time);
  for (const auto& [name, ending] : job.wait())
    EXPECT_EQ(ending, name == "worker/2.0" ? "killed" : "") << name;
  EXPECT_GT(samples_of_the_newcomer, 0u);
  for (const Training* training : {&trainings[0], &trainings[1], &again}) {
    EXPECT_TRUE(training->each_once()) << training->seen;
    EXPECT_TRUE(training->weight.equal(trainings[0].weight));
  }
}

TEST(ElasticRun, AWorkerThatIsSentAwayIsDismissedAndNothingIsDoneAgain) {
  ElasticWorkers job(/*initial=*/3, /*most=*/3);
  Trainings trainings;
  std::atomic<std::int64_t> reduced = 0;
  for (int i = 0; i < 3; ++i)
    job.start(i, [&, i](Context& context) {
      train_in(
          context, trainings[i],
          [&, i](std::int64_t, Training&) {
            if (i == 0) ++reduced;
          },
          [&, i](std::int64_t step, Training&) {
            if (step == 5 && i == 0) job.job().service().resize(2, "asked for");
          });
    });
  EXPECT_THAT(job.wait(), ElementsAre(Pair("worker/0.0", ""), Pair("worker/1.0", ""),
                                      Pair("worker/2.0", "dismissed")));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(trainings[i].each_once());
  EXPECT_EQ(reduced, trainings[0].step);
}

TEST(ElasticRun, ALossAfterTheOthersHaveFinishedDoesNotMakeThemTrainAgain) {
  ElasticWorkers job(/*initial=*/3, /*most=*/3);
  Trainings trainings;
  std::latch others(2);
  for (int i = 0; i < 3; ++i)
    job.start(i, [&, i](Context& context) {
      train_in(context, trainings[i], nothing, nothing, [&, i] {
        if (i != 2) return others.count_down();
        others.wait();
        throw Killed();
      });
    });
  EXPECT_THAT(job.wait(), ElementsAre(Pair("worker/0.0", ""), Pair("worker/1.0", ""),
                                      Pair("worker/2.0", "killed")));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(trainings[i].each_once());
    EXPECT_EQ(trainings[i].calls, 1);
  }
}

TEST(ElasticRun, WorkersThatRegisterOtherThingsAreRefusedByName) {
  ElasticWorkers job(/*initial=*/1, /*most=*/2);
  Training training, other;
  torch::Tensor more = torch::zeros({3});
  other.state.register_tensor("more", more);
  job.start(0, [&](Context& context) {
    train_in(context, training, nothing, [&](std::int64_t step, Training&) {
      if (step == 1) job.start(1, [&](Context& late) { train_in(late, other); });
      if (step == 3) job.job().wait_event(membership::MembershipEvent::Kind::refused);
    });
  });
  const auto endings = job.wait();
  EXPECT_EQ(endings.at("worker/0.0"), "");
  EXPECT_THAT(endings.at("worker/1.0"), HasSubstr("more"));
}

TEST(ElasticRun, ALoopThatAlwaysFailsEndsWithItsError) {
  ElasticWorkers job(/*initial=*/2, /*most=*/2);
  std::array<std::atomic<int>, 2> calls{};
  for (int i = 0; i < 2; ++i)
    job.start(i, [&, i](Context& context) {
      Training training;
      run(context, training.state, [&](State&) {
        ++calls[i];
        std::vector<double> numbers(i == 0 ? 3 : 4);
        context.group().all_reduce(std::span(numbers));
      });
    });
  for (const auto& [name, ending] : job.wait()) {
    EXPECT_THAT(ending, HasSubstr("the same 2 workers failed 10 times in a row")) << name;
    EXPECT_THAT(ending, HasSubstr("all_reduce")) << name;
  }
  for (const auto& count : calls) EXPECT_LE(count, kMostFruitlessChanges + 1);
}

// Every time on all workers, before anything is committed.
TEST(ElasticRun, ALoopThatFailsLessOftenThanTheLimitGoesOn) {
  ElasticWorkers job(/*initial=*/2, /*most=*/2);
  Trainings trainings;
  for (int i = 0; i < 2; ++i)
    job.start(i, [&, i](Context& context) {
      int failures = 0;
      train_in(context, trainings[i], [&](std::int64_t, Training&) {
        if (failures++ < 5) throw TimeoutError("a slow machine");
      });
    });
  EXPECT_THAT(job.wait(), ElementsAre(Pair("worker/0.0", ""), Pair("worker/1.0", "")));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(trainings[i].each_once());
}

TEST(ElasticRun, APeerThatBreaksTheProtocolIsALostPeer) {
  ElasticWorkers job(/*initial=*/2, /*most=*/2);
  Trainings trainings;
  for (int i = 0; i < 2; ++i)
    job.start(i, [&, i](Context& context) {
      bool broken = i == 0;
      train_in(context, trainings[i], [&](std::int64_t step, Training&) {
        if (step == 7 && std::exchange(broken, false))
          throw ProtocolError("a chunk that does not fit its message");
      });
    });
  EXPECT_THAT(job.wait(), ElementsAre(Pair("worker/0.0", ""), Pair("worker/1.0", "")));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(trainings[i].each_once());
    EXPECT_EQ(trainings[i].calls, 2);
  }
}

TEST(ElasticRun, AloneAndInAFixedJobTheLoopRunsOnceAndItsErrorsPass) {
  Context alone = init(cluster::Environment{}, {});
  Training training;
  train_in(alone, training);
  EXPECT_TRUE(training.each_once());
  EXPECT_EQ(training.calls, 1);
  EXPECT_THROW(run(alone, training.state, [](State&) { throw PeerError("of its own"); }),
               PeerError);
  training.weight.zero_();
  training.state.restore();
  EXPECT_NE(training.weight.sum().item<double>(), 0);
  alone.leave();

  cluster::StoreServer store;
  Trainings trainings;
  std::vector<std::jthread> workers;
  for (int i = 0; i < 2; ++i)
    workers.emplace_back([&, i] {
      Context context = init({{"COHORT_RANK", std::to_string(i)},
                              {"COHORT_SIZE", "2"},
                              {"COHORT_LOCAL_RANK", std::to_string(i)},
                              {"COHORT_LOCAL_SIZE", "2"},
                              {"COHORT_STORE", to_string(store.address())},
                              {"COHORT_JOB", "fixed"}},
                             {});
      train_in(context, trainings[i]);
      context.leave();
    });
  workers.clear();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(trainings[i].each_once());
  EXPECT_TRUE(trainings[0].weight.equal(trainings[1].weight));
}

}  // namespace
}  // namespace cohort::elastic

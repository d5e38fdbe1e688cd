#include "cohort/parallel/gradients/gradient_sync.h"

#include <gmock/gmock.h>

#include <mutex>
#include <set>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/parallel/sharding/gradient_shares.h"
#include "cohort/parallel/strategies/replicas_test.h"

namespace cohort::parallel {
namespace {

using collective::Group;
using ::testing::HasSubstr;

torch::Tensor parameter(torch::IntArrayRef sizes, torch::ScalarType dtype = torch::kFloat) {
  return torch::ones(sizes, dtype).requires_grad_();
}

// Of the same value in every element, so that expectations are short.
torch::Tensor loss_of(const torch::Tensor& weight, double factor) {
  return (weight * factor).sum();
}

void expect_all(const torch::Tensor& tensor, double value) {
  ASSERT_TRUE(tensor.defined());
  EXPECT_TRUE(
      torch::allclose(tensor.to(torch::kDouble), torch::full_like(tensor, value, torch::kDouble)))
      << tensor << " instead of " << value;
}

TEST(GradientSync, SumsWhatEachReplicaComputed) {
  run_replicas(3, [](Group& group) {
    torch::Tensor a = parameter({5, 7}), b = parameter({3});
    GradientSync sync(group, {{"a", a}, {"b", b}});
    for (int step = 0; step < 3; ++step) {
      sync.begin_shard(group.rank());
      (loss_of(a, group.rank() + 1) + loss_of(b, 10 * step)).backward();
      sync.end_shard();
      sync.finish(soon());
      expect_all(a.grad(), 6);
      expect_all(b.grad(), 30 * step);
    }
  });
}

// A CUDA graph that cannot be made of a step is noticed when the step is over.
TEST(GradientSync, AloneAStepCanBeMadeAgainAtAnyPoint) {
  run_replicas(1, [](Group& group) {
    torch::Tensor weight = parameter({4});
    GradientSync sync(group, {{"weight", weight}});
    for (const int until : {0, 1, 2, 3}) {
      sync.begin_shard(0);
      if (until > 0) loss_of(weight, 7).backward();
      if (until > 1) sync.end_shard();
      if (until > 2) sync.finish(soon());
      EXPECT_TRUE(sync.discard_shard()) << until;
    }
    sync.begin_shard(0);
    loss_of(weight, 2).backward();
    sync.end_shard();
    sync.finish(soon());
    expect_all(weight.grad(), 2);
  });
}

TEST(GradientSync, LeavesEachRankItsSliceOfADividedGradient) {
  for (const int shards : {3, 4, 6})
    run_replicas(3, [&](Group& group) {
      torch::Tensor cut = parameter({130, 160}), half = parameter({200, 300}, torch::kHalf),
                    small = parameter({5});
      const std::vector<torch::Tensor> all{cut, half, small};
      const std::vector<ParameterSize> sizes{{20800, 4}, {60000, 2}, {5, 4}};
      const Partition partition(sizes, 3);
      const auto shares = std::make_shared<GradientShares>(all, partition, group.rank());
      GradientSync sync(group, {{"cut", cut}, {"half", half}, {"small", small}},
                        {.shards = shards, .shares = shares});
      ASSERT_EQ(shares->find(half), nullptr);
      for (int step = 0; step < 3; ++step) {
        for (int i = 0; i < sync.shard_count(); ++i) {
          const int shard = sync.first_shard() + i;
          sync.begin_shard(shard);
          (loss_of(cut, shard + step) + loss_of(half, 1) + loss_of(small, shard)).backward();
          sync.end_shard();
        }
        sync.finish(soon());
        const int sum = shards * (shards - 1) / 2;
        EXPECT_FALSE(cut.grad().defined());
        expect_all(shares->find(cut)->own, sum + shards * step);
        EXPECT_EQ(shares->find(cut)->own.numel(),
                  static_cast<std::int64_t>(partition.slice(0, group.rank()).count));
        expect_all(half.grad(), shards);
        expect_all(small.grad(), sum);
      }
    });
}

TEST(GradientSync, AveragesOverShardsWhenAsked) {
  run_replicas(2, [](Group& group) {
    torch::Tensor a = parameter({100});
    GradientSync sync(group, {{"a", a}}, {.shards = 4, .average = true});
    for (int shard = sync.first_shard(); shard < sync.first_shard() + sync.shard_count(); ++shard) {
      sync.begin_shard(shard);
      loss_of(a, shard).backward();
      sync.end_shard();
    }
    sync.finish(soon());
    expect_all(a.grad(), 1.5);
  });
}

TEST(GradientSync, GradientsStayWhereAutogradPutThemInAGroupOfOne) {
  const auto group = collective::make_group_of_one();
  torch::Tensor a = parameter({4});
  GradientSync sync(*group, {{"a", a}});
  sync.begin_shard(0);
  loss_of(a, 2).backward();
  const void* memory = a.grad().data_ptr();
  sync.end_shard();
  sync.finish(soon());
  EXPECT_EQ(a.grad().data_ptr(), memory);
  expect_all(a.grad(), 2);
}

TEST(GradientSync, SeveralBackwardsOfAShardAddUpUnderNoSync) {
  run_replicas(2, [](Group& group) {
    torch::Tensor a = parameter({6}), only_first = parameter({2});
    GradientSync sync(group, {{"a", a}, {"only_first", only_first}});
    sync.begin_shard(group.rank());
    {
      GradientSync::NoSync no_sync(sync);
      (loss_of(a, 1) + loss_of(only_first, 3)).backward();
      loss_of(a, 1).backward();
    }
    loss_of(a, 5).backward();
    sync.end_shard();
    sync.finish(soon());
    expect_all(a.grad(), 14);
    expect_all(only_first.grad(), 6);
  });
}

TEST(GradientSync, ASecondBackwardWithoutNoSyncIsAnError) {
  const auto errors = try_replicas(2, [](Group& group) {
    torch::Tensor a = parameter({6});
    GradientSync sync(group, {{"layer.weight", a}});
    sync.begin_shard(group.rank());
    loss_of(a, 1).backward();
    loss_of(a, 1).backward();
    sync.end_shard();
    sync.finish(soon());
  });
  for (const auto& error : errors)
    EXPECT_THAT(what_of(error), HasSubstr("layer.weight got a second gradient"));
}

TEST(GradientSync, UnusedParametersAreNamedOnEveryRank) {
  for (const int size : {1, 2}) {
    const auto errors = try_replicas(size, [](Group& group) {
      torch::Tensor a = parameter({6}), b = parameter({6});
      GradientSync sync(group, {{"used", a}, {"head.bias", b}});
      sync.begin_shard(group.rank());
      (group.rank() == 0 ? loss_of(a, 1) : loss_of(a, 1) + loss_of(b, 1)).backward();
      sync.end_shard();
      sync.finish(soon());
    });
    EXPECT_THAT(what_of(errors[0]), HasSubstr("no gradient for head.bias in shard 0"));
    EXPECT_THAT(what_of(errors[0]), HasSubstr("allow_unused"));
    EXPECT_THAT(what_of(errors.back()), HasSubstr("no gradient for head.bias"));
  }
}

TEST(GradientSync, UnusedParametersCountAsZeroWhenAllowed) {
  for (const int size : {1, 2}) {
    run_replicas(size, [size](Group& group) {
      torch::Tensor a = parameter({6}), b = parameter({6}), never = parameter({2});
      GradientSync sync(group, {{"a", a}, {"b", b}, {"never", never}}, {.allow_unused = true});
      for (int step = 0; step < 3; ++step) {
        sync.begin_shard(group.rank());
        (group.rank() == 0 ? loss_of(a, 1) : loss_of(a, 1) + loss_of(b, 4)).backward();
        sync.end_shard();
        sync.finish(soon());
        expect_all(a.grad(), size);
        expect_all(b.grad(), size == 1 ? 0 : 4);
        expect_all(never.grad(), 0);
      }
    });
  }
}

TEST(GradientSync, AShardWithoutSamplesAddsZero) {
  run_replicas(2, [](Group& group) {
    torch::Tensor a = parameter({6});
    GradientSync sync(group, {{"a", a}});
    for (int step = 0; step < 3; ++step) {
      sync.begin_shard(group.rank());
      if (group.rank() == 1) loss_of(a, 7).backward();
      sync.end_shard();
      sync.finish(soon());
      expect_all(a.grad(), 7);
    }
  });
}

TEST(GradientSync, SharedParametersHaveOneGradient) {
  run_replicas(2, [](Group& group) {
    torch::Tensor tied = parameter({6}), frozen = torch::ones({3});
    GradientSync sync(group, {{"encoder", tied}, {"decoder", tied}, {"frozen", frozen}});
    sync.begin_shard(group.rank());
    (loss_of(tied, 1) + loss_of(tied, 2)).backward();
    sync.end_shard();
    sync.finish(soon());
    expect_all(tied.grad(), 6);
    EXPECT_FALSE(frozen.grad().defined());
  });
}

TEST(GradientSync, DtypesAndStridesAreKept) {
  run_replicas(2, [](Group& group) {
    NamedTensors parameters;
    const auto add = [&](const char* name, torch::Tensor value) {
      parameters.emplace_back(name, value.detach().requires_grad_());
    };
    add("f32", torch::ones({40}));
    add("f64", torch::ones({7}, torch::kDouble));
    add("bf16", torch::ones({7}, torch::kBFloat16));
    add("f16", torch::ones({9}, torch::kHalf));
    add("transposed", torch::ones({4, 5}).t());
    add("channels_last", torch::ones({2, 3, 4, 5}).contiguous(torch::MemoryFormat::ChannelsLast));
    add("with_gaps", torch::ones({6, 6}).slice(1, 0, 6, 2));
    GradientSync sync(group, parameters,
                      {.bucket_bytes = 256, .first_bucket_bytes = 64, .shards = 5});
    for (int step = 0; step < 3; ++step) {
      for (int i = 0; i < sync.shard_count(); ++i) {
        sync.begin_shard(sync.first_shard() + i);
        torch::Tensor loss = torch::zeros({});
        for (auto& [name, value] : parameters)
          loss = loss + loss_of(value, 1 + sync.first_shard() + i).to(torch::kFloat);
        loss.backward();
        sync.end_shard();
      }
      sync.finish(soon());
      for (auto& [name, value] : parameters) {
        SCOPED_TRACE(name);
        EXPECT_EQ(value.grad().scalar_type(), value.scalar_type());
        expect_all(value.grad(), 15);
        EXPECT_TRUE(name == "with_gaps" || value.grad().strides() == value.strides());
      }
    }
  });
}

TEST(GradientSync, LargeGradientsAreSummedWhereAutogradMakesThem) {
  // With 8 shards on 3 ranks the first two have two partial sums each.
  for (const auto& [size, shards] : {std::pair{2, 4}, {3, 4}, {3, 8}}) {
    run_replicas(size, [shards = shards](Group& group) {
      torch::Tensor large = parameter({600, 700}), small = parameter({700}),
                    unused = parameter({600, 600});
      GradientSync sync(group, {{"large", large}, {"small", small}, {"unused", unused}},
                        {.shards = shards, .allow_unused = true});
      std::set<const void*> places;
      for (int step = 0; step < 4; ++step) {
        const void* made = nullptr;
        for (int i = 0; i < sync.shard_count(); ++i) {
          const int shard = sync.first_shard() + i;
          sync.begin_shard(shard);
          ((torch::full({2, 600}, shard + 1.0f).mm(large) + small).sum()).backward();
          made = large.grad().defined() ? large.grad().data_ptr() : made;
          sync.end_shard();
        }
        sync.finish(soon());
        EXPECT_EQ(large.grad().data_ptr(), made);
        places.insert(made);
        expect_all(large.grad(), shards * (shards + 1));
        expect_all(small.grad(), 2 * shards);
        expect_all(unused.grad(), 0);
      }
      // Each step took what the one before had given back.
      EXPECT_LE(places.size(), static_cast<std::size_t>(sync.shard_count()));
    });
  }
}

TEST(GradientSync, SeveralModelsTakeTurns) {
  run_replicas(2, [](Group& group) {
    torch::Tensor a = parameter({600}), b = parameter({600});
    GradientSync first(group, {{"a", a}}), second(group, {{"b", b}});
    for (int step = 0; step < 3; ++step) {
      first.begin_shard(group.rank());
      second.begin_shard(group.rank());
      (loss_of(a, 1) + loss_of(b, 2)).backward();
      first.end_shard();
      second.end_shard();
      first.finish(soon());
      second.finish(soon());
      expect_all(a.grad(), 2);
      expect_all(b.grad(), 4);
    }
  });
}

TEST(GradientSync, BucketsFollowTheOrderOfRankZero) {
  run_replicas(3, [](Group& group) {
    NamedTensors parameters;
    for (int i = 0; i < 6; ++i) parameters.emplace_back("p" + std::to_string(i), parameter({1000}));
    GradientSync sync(group, parameters, {.bucket_bytes = 4000, .first_bucket_bytes = 4000});
    sync.record_events(true);
    for (int step = 0; step < 3; ++step) {
      sync.begin_shard(group.rank());
      // The last registered is used first, so its gradient comes last: the first guess is wrong.
      torch::Tensor value = torch::ones({1000});
      for (auto it = parameters.rbegin(); it != parameters.rend(); ++it) value = value * it->second;
      value.sum().backward();
      sync.end_shard();
      sync.finish(soon());
      for (auto& [name, one] : parameters) expect_all(one.grad(), 3);
      const auto events = sync.take_events();
      ASSERT_EQ(events.size(), 6u);
      for (const auto& event : events) {
        EXPECT_EQ(event.bytes, 4032u);
        EXPECT_LE(event.ready, event.begun);
        EXPECT_LE(event.begun, event.ended);
      }
      // After the first step buckets are ready in their order.
      for (std::size_t i = 1; i < events.size(); ++i)
        EXPECT_TRUE(step == 0 || events[i - 1].ready <= events[i].ready);
    }
  });
}

TEST(GradientSync, CompressionStaysWithinTheTypesPrecision) {
  for (const Compression compression : {Compression::f16, Compression::bf16}) {
    const double precision = compression == Compression::f16 ? 1.0 / 1024 : 1.0 / 128;
    run_replicas(2, [&](Group& group) {
      torch::Tensor a = parameter({5000}), b = parameter({3000}, torch::kDouble);
      const torch::Tensor factor = torch::linspace(0.1, 2, 5000) * (group.rank() + 1);
      GradientSync sync(group, {{"a", a}, {"b", b}}, {.shards = 6, .compression = compression});
      for (int i = 0; i < sync.shard_count(); ++i) {
        sync.begin_shard(sync.first_shard() + i);
        ((a * factor).sum() + (b * factor.slice(0, 0, 3000)).sum()).backward();
        sync.end_shard();
      }
      sync.finish(soon());
      const torch::Tensor expected = torch::linspace(0.1, 2, 5000) * 9;
      EXPECT_TRUE(torch::allclose(a.grad(), expected, 2 * precision, 0));
      EXPECT_FALSE(torch::equal(a.grad(), expected));  // it was rounded on the way
      EXPECT_TRUE(torch::allclose(b.grad(), expected.slice(0, 0, 3000).to(torch::kDouble),
                                  2 * precision, 0));
    });
  }
}

TEST(GradientSync, AReducerReplacesTheSum) {
  run_replicas(2, [](Group& group) {
    torch::Tensor a = parameter({64});
    int calls = 0;
    GradientSync sync(group, {{"a", a}},
                      {.shards = 4, .reducer = [&](Group& same, torch::Tensor v) {
                         ++calls;
                         same.all_reduce(
                             v.data_ptr(), v.data_ptr(), static_cast<std::size_t>(v.numel()),
                             collective::DataType::f32, {.op = collective::ReduceOp::maximum});
                       }});
    for (int i = 0; i < sync.shard_count(); ++i) {
      sync.begin_shard(sync.first_shard() + i);
      loss_of(a, group.rank() + 1).backward();
      sync.end_shard();
    }
    sync.finish(soon());
    EXPECT_EQ(calls, 1);
    expect_all(a.grad(), 4);  // rank 1's two shards of 2
  });
}

TEST(GradientSync, AReducerThatFailsEndsTheStepOnEveryRank) {
  const auto errors = try_replicas(2, [](Group& group) {
    torch::Tensor a = parameter({64});
    GradientSync sync(group, {{"a", a}}, {.reducer = [](Group& same, torch::Tensor) {
                        if (same.rank() == 0) throw InvalidInput("no codec for this");
                        same.barrier();
                      }});
    sync.begin_shard(group.rank());
    loss_of(a, 1).backward();
    sync.end_shard();
    sync.finish(soon());
  });
  EXPECT_THAT(what_of(errors[0]), HasSubstr("no codec for this"));
  EXPECT_THAT(what_of(errors[1]), HasSubstr("no codec for this"));
}

TEST(GradientSync, SparseGradientsAreRefusedByName) {
  const auto errors = try_replicas(2, [](Group& group) {
    torch::Tensor table = parameter({10, 4});
    GradientSync sync(group, {{"embedding.weight", table}});
    sync.begin_shard(group.rank());
    torch::embedding(table, torch::tensor({1, 2}), -1, false, /*sparse=*/true).sum().backward();
    sync.end_shard();
    sync.finish(soon());
  });
  for (const auto& error : errors)
    EXPECT_THAT(what_of(error), HasSubstr("the gradient of embedding.weight is sparse"));
}

TEST(GradientSync, CallsOutOfTurnAreExplained) {
  const auto group = collective::make_group_of_one();
  torch::Tensor a = parameter({4});
  GradientSync sync(*group, {{"a", a}}, {.shards = 2});
  EXPECT_THAT(message_of<InvalidInput>([&] { sync.begin_shard(1); }), HasSubstr("begin_shard(1)"));
  EXPECT_THAT(message_of<InvalidInput>([&] { sync.end_shard(); }), HasSubstr("without begin"));
  EXPECT_THAT(message_of<InvalidInput>([&] { sync.finish(soon()); }), HasSubstr("0 of 2"));
}

TEST(GradientSync, GradientsAndAutogradSurviveIt) {
  const auto errors = try_replicas(2, [](Group& group) {
    torch::Tensor a = parameter({100});
    {
      GradientSync sync(group, {{"a", a}});
      sync.begin_shard(group.rank());
      loss_of(a, 1).backward();
      sync.end_shard();
      sync.finish(soon());
    }
    expect_all(a.grad(), 2);
    loss_of(a, 1).backward();  // no hook is left
    expect_all(a.grad(), 3);
  });
  for (const auto& error : errors) EXPECT_EQ(what_of(error), "");
}

TEST(GradientSync, ADeadlineEndsTheWaitForAReplicaThatDoesNotCome) {
  std::mutex first;
  first.lock();
  const auto errors = try_replicas(2, [&](Group& group) {
    torch::Tensor a = parameter({100});
    GradientSync sync(group, {{"a", a}});
    if (group.rank() == 1) {
      std::lock_guard wait(first);  // until rank 0 has given up
      return;
    }
    sync.begin_shard(0);
    loss_of(a, 1).backward();
    sync.end_shard();
    try {
      sync.finish(Deadline::after(std::chrono::milliseconds(50)));
    } catch (...) {
      first.unlock();
      throw;
    }
  });
  EXPECT_THAT(what_of(errors[0]), HasSubstr("gradients"));
}

TEST(ClipGradients, ScalesAllGradientsTogetherToTheNorm) {
  torch::Tensor a = parameter({3}), b = parameter({1}, torch::kDouble), none = parameter({2});
  a.mutable_grad() = torch::full({3}, 4.0);
  b.mutable_grad() = torch::full({1}, 1.0, torch::kDouble);
  const NamedTensors parameters{{"a", a}, {"b", b}, {"a again", a}, {"none", none}};
  EXPECT_DOUBLE_EQ(clip_gradients(parameters, 14), 7);
  expect_all(a.grad(), 4);
  EXPECT_DOUBLE_EQ(clip_gradients(parameters, 3.5), 7);
  expect_all(a.grad(), 2);
  expect_all(b.grad(), 0.5);
  EXPECT_THROW(clip_gradients(parameters, 0), InvalidInput);
}

TEST(ClipGradients, TheNormDoesNotDependOnLibTorchsThreads) {
  torch::Tensor a = parameter({300000});
  a.mutable_grad() = torch::randn({300000});
  at::set_num_threads(2);
  const double two = clip_gradients({{"a", a}}, 1e9);
  at::set_num_threads(1);
  EXPECT_EQ(clip_gradients({{"a", a}}, 1e9), two);
}

}  // namespace
}  // namespace cohort::parallel

// Gradients that stay on a device, with the host's memory in the place of a GPU's.
#include "cohort/parallel/gradients/device_gradients.h"

#include <gmock/gmock.h>

#include <cmath>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/parallel/gradients/host_device_group_test.h"
#include "cohort/parallel/strategies/replicas_test.h"

namespace cohort::parallel {
namespace {

using collective::Group;
using collective::ShardRange;
using ::testing::HasSubstr;

// Values of very different sizes, so that another order of addition gives other bits.
torch::Tensor gradient_of(int shard, int step, const torch::Tensor& like) {
  const auto at = torch::arange(like.numel(), torch::kDouble).view(like.sizes());
  return (torch::sin(at * (shard + 1) + step) * std::pow(30.0, shard % 3)).to(like.scalar_type());
}

torch::Tensor expected_sum(int shards, int step, const torch::Tensor& like) {
  std::vector<torch::Tensor> parts;
  for (int shard = 0; shard < shards; ++shard)
    parts.push_back(gradient_of(shard, step, like)
                        .to(like.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat));
  return tree_sum(parts, 0, shards).to(like.scalar_type());
}

NamedTensors some_parameters(torch::ScalarType dtype) {
  NamedTensors parameters;
  for (const int rows : {3, 1, 70, 40})
    parameters.emplace_back(std::to_string(rows), torch::ones({rows, 33}, dtype).requires_grad_());
  parameters.emplace_back("turned", torch::ones({5, 8}, dtype).t().requires_grad_());
  return parameters;
}

void train_shards(DeviceGradients& gradients, const NamedTensors& parameters, int step) {
  const ShardRange own = gradients.own_shards();
  for (int shard = own.first; shard < own.first + own.count; ++shard) {
    gradients.begin_shard(shard);
    torch::Tensor loss = torch::zeros({}, parameters[0].second.scalar_type());
    for (const auto& [name, one] : parameters)
      loss = loss + (one * gradient_of(shard, step, one)).sum();
    loss.backward();
    gradients.end_shard();
  }
  gradients.finish(soon());
}

TEST(DeviceGradients, HaveTheBitsOfTheTreeWhateverTheRanksAndShards) {
  for (const auto dtype : {torch::kFloat, torch::kDouble, torch::kHalf})
    for (const int ranks : {1, 2, 3, 4})
      for (const int shards : {4, 7, 8})
        run_replicas(ranks, [&](Group& group) {
          HostDeviceGroup device(group);
          const NamedTensors parameters = some_parameters(dtype);
          // Buckets of a few entries each.
          DeviceGradients gradients(
              group, group.size() > 1 ? &device : nullptr, parameters,
              {.bucket_bytes = 4096, .first_bucket_bytes = 100, .shards = shards});
          EXPECT_GT(gradients.layouts().size(), 1u);
          for (int step = 0; step < 3; ++step) {
            train_shards(gradients, parameters, step);
            for (const auto& [name, one] : parameters)
              EXPECT_TRUE(same_bits(one.grad(), expected_sum(shards, step, one)))
                  << name << " of " << torch::toString(dtype) << ", rank " << group.rank() << " of "
                  << ranks << ", " << shards << " shards";
          }
          if (ranks > 2) {
            EXPECT_EQ(device.reductions, 0);
          }
        });
}

TEST(DeviceGradients, LieWhereTheyLayInTheStepBefore) {
  run_replicas(2, [&](Group& group) {
    HostDeviceGroup device(group);
    const NamedTensors parameters = some_parameters(torch::kFloat);
    DeviceGradients gradients(group, &device, parameters, {});
    train_shards(gradients, parameters, 0);
    std::vector<const void*> before;
    for (const auto& [name, one] : parameters) before.push_back(one.grad().data_ptr());
    train_shards(gradients, parameters, 1);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_EQ(parameters[i].second.grad().data_ptr(), before[i]);
  });
}

TEST(DeviceGradients, OfARankWithoutShardsAreTheSum) {
  run_replicas(3, [&](Group& group) {
    HostDeviceGroup device(group);
    const NamedTensors parameters = some_parameters(torch::kFloat);
    DeviceGradients gradients(group, &device, parameters,
                              {.shards = 3, .runs = {{0, 2}, {2, 0}, {2, 1}}});
    for (int step = 0; step < 2; ++step) {
      train_shards(gradients, parameters, step);
      for (const auto& [name, one] : parameters)
        EXPECT_TRUE(same_bits(one.grad(), expected_sum(3, step, one)));
    }
  });
}

TEST(DeviceGradients, InAnyOrderAreOneCallOfTheDeviceGroupABucket) {
  run_replicas(3, [&](Group& group) {
    HostDeviceGroup device(group);
    const NamedTensors parameters = some_parameters(torch::kFloat);
    DeviceGradients gradients(group, &device, parameters,
                              {.shards = 6, .any_order = true, .average = true});
    train_shards(gradients, parameters, 0);
    EXPECT_EQ(device.reductions, static_cast<int>(gradients.layouts().size()));
    for (const auto& [name, one] : parameters)
      EXPECT_TRUE(torch::allclose(one.grad(), expected_sum(6, 0, one) / 6, 1e-4, 1e-4));
  });
}

TEST(DeviceGradients, AShardWithoutSamplesAddsNothing) {
  run_replicas(2, [&](Group& group) {
    HostDeviceGroup device(group);
    torch::Tensor weight = torch::ones({9}).requires_grad_();
    DeviceGradients gradients(group, &device, {{"weight", weight}}, {.shards = 4});
    const ShardRange own = gradients.own_shards();
    for (int shard = own.first; shard < own.first + own.count; ++shard) {
      gradients.begin_shard(shard);
      if (shard != 3) (weight * (shard + 1)).sum().backward();
      gradients.end_shard();
    }
    gradients.finish(soon());
    EXPECT_TRUE(torch::equal(weight.grad(), torch::full({9}, 6.0f)));
  });
}

TEST(DeviceGradients, GiveUpAShardOfWhichNothingWasTaken) {
  run_replicas(2, [&](Group& group) {
    HostDeviceGroup device(group);
    torch::Tensor weight = torch::ones({9}).requires_grad_();
    DeviceGradients gradients(group, &device, {{"weight", weight}}, {});
    EXPECT_FALSE(gradients.discard_shard());
    gradients.begin_shard(group.rank());
    EXPECT_TRUE(gradients.discard_shard());
    gradients.begin_shard(group.rank());
    (weight * 2).sum().backward();
    EXPECT_FALSE(gradients.discard_shard());
    gradients.end_shard();
    gradients.finish(soon());
    EXPECT_TRUE(torch::equal(weight.grad(), torch::full({9}, 4.0f)));
  });
}

TEST(DeviceGradients, AccumulateOverBackwardsWithoutSync) {
  run_replicas(2, [&](Group& group) {
    HostDeviceGroup device(group);
    torch::Tensor weight = torch::ones({9}).requires_grad_();
    DeviceGradients gradients(group, &device, {{"weight", weight}}, {});
    gradients.begin_shard(group.rank());
    gradients.set_no_sync(true);
    (weight * 2).sum().backward();
    gradients.set_no_sync(false);
    (weight * 3).sum().backward();
    gradients.end_shard();
    gradients.finish(soon());
    EXPECT_TRUE(torch::equal(weight.grad(), torch::full({9}, 10.0f)));
  });
}

TEST(DeviceGradients, NameWhatIsMissingOrComesTwice) {
  run_replicas(1, [&](Group& group) {
    torch::Tensor used = torch::ones({9}).requires_grad_(),
                  unused = torch::ones({2}).requires_grad_();
    DeviceGradients gradients(group, nullptr, {{"used", used}, {"unused", unused}}, {.shards = 2});
    for (int shard = 0; shard < 2; ++shard) {
      gradients.begin_shard(shard);
      used.sum().backward();
      gradients.end_shard();
    }
    EXPECT_THAT(message_of<InvalidInput>([&] { gradients.finish(soon()); }), HasSubstr("unused"));
  });
  run_replicas(1, [&](Group& group) {
    torch::Tensor weight = torch::ones({9}).requires_grad_();
    DeviceGradients gradients(group, nullptr, {{"weight", weight}}, {.shards = 2});
    for (int shard = 0; shard < 2; ++shard) {
      gradients.begin_shard(shard);
      weight.sum().backward();
      weight.sum().backward();
      gradients.end_shard();
    }
    EXPECT_THAT(message_of<InvalidInput>([&] { gradients.finish(soon()); }),
                HasSubstr("second gradient"));
  });
}

}  // namespace
}  // namespace cohort::parallel

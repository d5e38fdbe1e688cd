#include "cohort/parallel/strategies/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/parallel/strategies/make_strategy.h"

namespace cohort::parallel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

WorkerCard worker(const std::string& host, int gpus, const std::string& visible = "") {
  return {.strategy = "multi_worker_mirrored",
          .replicas = 1,
          .device = "cuda",
          .host = host,
          .visible_gpus = visible,
          .gpus = gpus};
}

std::vector<int> gpus_of(const StrategyFlags& flags, const std::vector<WorkerCard>& cards,
                         int rank) {
  std::vector<int> indices;
  for (const torch::Device& device : choose_devices(flags, cards, rank)) {
    EXPECT_TRUE(device.is_cuda());
    indices.push_back(device.index());
  }
  return indices;
}

using Indices = std::vector<int>;

TEST(Layout, ReplicasAreOnTheCpuUnlessAskedOtherwise) {
  const auto devices = choose_devices({.num_replicas = 3}, {worker("a", 8)}, 0);
  EXPECT_EQ(devices, std::vector<torch::Device>(3, torch::kCPU));
}

TEST(Layout, WorkersOfOneHostTakeGpusOneAfterAnother) {
  const std::vector<WorkerCard> cards = {worker("a", 4), worker("b", 4), worker("a", 4)};
  EXPECT_EQ(gpus_of({.num_gpus = 2}, cards, 0), (Indices{0, 1}));
  EXPECT_EQ(gpus_of({.num_gpus = 2}, cards, 1), (Indices{0, 1}));
  EXPECT_EQ(gpus_of({.num_gpus = 2}, cards, 2), (Indices{2, 3}));
}

TEST(Layout, WorkersWithVisibleGpusOfTheirOwnAllStartAtTheFirst) {
  const std::vector<WorkerCard> cards = {worker("a", 1, "0"), worker("a", 1, "1")};
  EXPECT_EQ(gpus_of({.num_gpus = 1}, cards, 0), (Indices{0}));
  EXPECT_EQ(gpus_of({.num_gpus = 1}, cards, 1), (Indices{0}));
}

TEST(Layout, AGpuThatTwoWorkersSeeIsNotTakenTwice) {
  const std::vector<WorkerCard> cards = {worker("a", 2, "0,1"), worker("a", 2, "1, 2")};
  EXPECT_EQ(gpus_of({.num_gpus = 1}, cards, 1), (Indices{1}));
  EXPECT_THAT(message_of<InvalidInput>([&] { choose_devices({.num_gpus = 2}, cards, 1); }),
              AllOf(HasSubstr("--num_gpus is 2 for each of 2 workers"), HasSubstr("sees 2 GPUs"),
                    HasSubstr("CUDA_VISIBLE_DEVICES")));
}

TEST(Layout, MoreGpusThanThereAreNamesBothNumbers) {
  EXPECT_THAT(
      message_of<InvalidInput>([&] { choose_devices({.num_gpus = 3}, {worker("a", 2)}, 0); }),
      AllOf(HasSubstr("--num_gpus is 3"), HasSubstr("sees 2 GPUs")));
  EXPECT_THAT(
      message_of<InvalidInput>([&] { choose_devices({.device = "cuda"}, {worker("a", 0)}, 0); }),
      AllOf(HasSubstr("--device is cuda"), HasSubstr("0 GPUs")));
}

TEST(Layout, DeviceCudaAloneDealsTheGpusOutInTurn) {
  const std::vector<WorkerCard> cards(3, worker("a", 2));
  EXPECT_EQ(gpus_of({.device = "cuda"}, cards, 1), (Indices{1}));
  EXPECT_EQ(gpus_of({.device = "cuda"}, cards, 2), (Indices{0}));
}

TEST(Layout, ADifferentWorkerIsNamed) {
  std::vector<WorkerCard> cards(3, worker("a", 2));
  check_same_layout(cards);
  cards[2].replicas = 2;
  EXPECT_THAT(message_of<InvalidInput>([&] { check_same_layout(cards); }),
              AllOf(HasSubstr("worker 2"), HasSubstr("2 replicas"), HasSubstr("1 replica ")));
}

TEST(Layout, ReplicasOfOneGpuAreToldFromTheCpus) {
  std::vector<WorkerCard> cards(2, worker("a", 2));
  cards[1].device = "cpu";
  EXPECT_THAT(message_of<InvalidInput>([&] { check_same_layout(cards); }), HasSubstr("on cpu"));
}

cluster::Role role_of(int size, const std::string& strategy = "") {
  cluster::Role role;
  role.size = size;
  role.strategy = strategy;
  return role;
}

cluster::Role with_servers(cluster::Role role) {
  role.cluster.set(cluster::TaskType::ps, {{"localhost", 1}});
  return role;
}

TEST(ResolveStrategy, FollowsFlagThenLauncherThenNumbers) {
  EXPECT_EQ(resolve_strategy({}, role_of(1)), "one_device");
  EXPECT_EQ(resolve_strategy({.num_replicas = 2}, role_of(1)), "mirrored");
  EXPECT_EQ(resolve_strategy({.num_replicas = 2}, role_of(3)), "multi_worker_mirrored");
  EXPECT_EQ(resolve_strategy({}, role_of(1, "mirrored")), "mirrored");
  EXPECT_EQ(resolve_strategy({}, with_servers(role_of(2, "ps"))), "parameter_server");
  EXPECT_EQ(resolve_strategy({.distribution_strategy = "off"}, role_of(1, "mirrored")),
            "one_device");
  EXPECT_EQ(resolve_strategy({.distribution_strategy = "multi_worker_mirrored"}, role_of(1)),
            "multi_worker_mirrored");
}

TEST(ResolveStrategy, RefusesOneProcessStrategiesForSeveralWorkers) {
  for (const char* name : {"off", "one_device", "mirrored"})
    EXPECT_THAT(message_of<InvalidInput>(
                    [&] { resolve_strategy({.distribution_strategy = name}, role_of(2)); }),
                AllOf(HasSubstr(name), HasSubstr("2 workers"), HasSubstr("multi_worker_mirrored")));
}

TEST(ResolveStrategy, RefusesAnUnknownNameFromTheLauncher) {
  EXPECT_THAT(message_of<InvalidInput>([&] { resolve_strategy({}, role_of(1, "mine")); }),
              AllOf(HasSubstr("'mine'"), HasSubstr("one_device, mirrored")));
  EXPECT_THAT(message_of<InvalidInput>(
                  [&] { resolve_strategy({.num_replicas = 2}, role_of(1, "one_device")); }),
              HasSubstr("2 replicas"));
}

TEST(ResolveStrategy, ParameterServerNeedsServersAndOneReplicaAWorker) {
  EXPECT_THAT(message_of<InvalidInput>([&] { resolve_strategy({}, role_of(2, "ps")); }),
              AllOf(HasSubstr("needs ps tasks"), HasSubstr("cohort run --ps N")));
  EXPECT_THAT(message_of<InvalidInput>(
                  [&] { resolve_strategy({.num_replicas = 2}, with_servers(role_of(2, "ps"))); }),
              HasSubstr("one replica a worker"));
}

}  // namespace
}  // namespace cohort::parallel

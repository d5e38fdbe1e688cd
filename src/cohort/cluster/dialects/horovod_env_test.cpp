#include "cohort/cluster/dialects/horovod_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/cluster/dialects/sample_roles_test.h"

namespace cohort::cluster {
namespace {

using testing::Pair;
using testing::UnorderedElementsAre;

TEST(HorovodEnv, WritesHorovodsListExactly) {
  ClusterSpec cluster;
  cluster.set(TaskType::worker, addresses({"localhost:1", "localhost:2"}));
  Environment environment;
  write_horovod_env(role_in(cluster, {TaskType::worker, 1}), environment);
  EXPECT_THAT(environment,
              UnorderedElementsAre(
                  Pair("HOROVOD_HOSTNAME", "localhost"), Pair("HOROVOD_RANK", "1"),
                  Pair("HOROVOD_SIZE", "2"), Pair("HOROVOD_LOCAL_RANK", "1"),
                  Pair("HOROVOD_LOCAL_SIZE", "2"), Pair("HOROVOD_CROSS_RANK", "0"),
                  Pair("HOROVOD_CROSS_SIZE", "1"), Pair("HOROVOD_GLOO_RENDEZVOUS_ADDR", "h0"),
                  Pair("HOROVOD_GLOO_RENDEZVOUS_PORT", "5002"), Pair("HOROVOD_GLOO_IFACE", "lo"),
                  Pair("HOROVOD_CONTROLLER", "gloo"), Pair("HOROVOD_CPU_OPERATIONS", "gloo")));
}

TEST(HorovodEnv, TheUsersInterfaceStaysOnOtherHosts) {
  Environment environment = {{"HOROVOD_GLOO_IFACE", "ib0"}};
  write_horovod_env(role_in(two_hosts(), {TaskType::worker, 0}), environment);
  EXPECT_EQ(environment["HOROVOD_GLOO_IFACE"], "ib0");
}

TEST(HorovodEnv, CrossNumbersCountHostsWithTheSameLocalRank) {
  ClusterSpec uneven;
  uneven.set(TaskType::worker, addresses({"a:1", "b:1", "b:2"}));
  auto cross = [&](int index) {
    Environment environment;
    write_horovod_env(role_in(uneven, {TaskType::worker, index}), environment);
    return environment["HOROVOD_CROSS_RANK"] + " of " + environment["HOROVOD_CROSS_SIZE"];
  };
  EXPECT_EQ(cross(0), "0 of 2");
  EXPECT_EQ(cross(1), "1 of 2");
  EXPECT_EQ(cross(2), "0 of 1");
}

TEST(HorovodEnv, ATaskThatDoesNotTrainLosesTheInheritedController) {
  Environment environment = {{"HOROVOD_CONTROLLER", "mpi"}, {"HOME", "/root"}};
  write_horovod_env(role_in(two_hosts(), {TaskType::evaluator, 0}), environment);
  EXPECT_THAT(environment, UnorderedElementsAre(Pair("HOME", "/root")));
}

TEST(HorovodEnv, TheRendezvousSurvivesTheRoundTrip) {
  const Role role = role_in(two_hosts(), {TaskType::worker, 0});
  Environment environment;
  write_horovod_env(role, environment);
  EXPECT_EQ(read_horovod_env(environment)->horovod_rendezvous, role.horovod_rendezvous);
}

}  // namespace
}  // namespace cohort::cluster

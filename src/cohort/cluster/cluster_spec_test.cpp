#include "cohort/cluster/cluster_spec.h"

#include <gtest/gtest.h>

#include "cohort/cluster/dialects/expect_invalid_test.h"
#include "cohort/cluster/dialects/sample_roles_test.h"

namespace cohort::cluster {
namespace {

ClusterSpec spec(std::initializer_list<std::pair<TaskType, std::vector<Address>>> jobs) {
  ClusterSpec cluster;
  for (const auto& [type, its] : jobs) cluster.set(type, its);
  return cluster;
}

TEST(ClusterSpec, ListsTasksInTheOrderOfTypesAndIndices) {
  std::vector<std::string> names;
  for (const TaskId& task : two_hosts().tasks()) names.push_back(to_string(task));
  EXPECT_EQ(names, (std::vector<std::string>{"chief/0", "worker/0", "worker/1", "worker/2", "ps/0",
                                             "ps/1", "evaluator/0"}));
}

TEST(ClusterSpec, TheChiefIsTheChiefOrMasterOrElseWorkerZero) {
  EXPECT_EQ(two_hosts().chief(), (TaskId{TaskType::chief, 0}));
  EXPECT_EQ(two_hosts(TaskType::master).chief(), (TaskId{TaskType::master, 0}));
  EXPECT_EQ(spec({{TaskType::worker, addresses({"a:1", "b:1"})}}).chief(),
            (TaskId{TaskType::worker, 0}));
  EXPECT_EQ(spec({{TaskType::ps, addresses({"a:1"})}}).chief(), std::nullopt);
}

TEST(ClusterSpec, ACoordinatorHasNoRank) {
  EXPECT_EQ(two_hosts().training_tasks().front(), (TaskId{TaskType::chief, 0}));
  EXPECT_EQ(two_hosts().training_tasks().size(), 4u);
  EXPECT_EQ(two_hosts().training_tasks(false).front(), (TaskId{TaskType::worker, 0}));
  EXPECT_EQ(two_hosts().training_tasks(false).size(), 3u);
}

TEST(ClusterSpec, AnEmptyListRemovesTheType) {
  ClusterSpec cluster = spec({{TaskType::worker, addresses({"a:1"})}});
  cluster.set(TaskType::worker, {});
  EXPECT_TRUE(cluster.empty());
}

TEST(ClusterSpec, AnIndexOutOfRangeIsNamedWithTheRange) {
  expect_invalid(
      [] {
        two_hosts().address({TaskType::worker, 3});
      },
      {"worker/3", "out of range", "3 worker tasks", "0 to 2"});
  expect_invalid([] { two_hosts().address({TaskType::worker, -1}); }, {"worker/-1", "0 to 2"});
  expect_invalid([] { two_hosts().address({TaskType::chief, 1}); }, {"chief/1", "index 0"});
  expect_invalid([] { two_hosts().address({TaskType::master, 0}); }, {"no master", "master/0"});
}

TEST(ClusterSpec, ValidClustersPass) {
  two_hosts().validate();
  two_hosts(TaskType::master).validate();
  spec({{TaskType::worker, addresses({"a:1"})}}).validate();
}

TEST(ClusterSpec, RefusesAnEmptyCluster) {
  expect_invalid([] { ClusterSpec().validate(); }, {"cluster is empty", "at least one worker"});
  expect_invalid(
      [] {
        spec({{TaskType::ps, addresses({"a:1"})}}).validate();
      },
      {"no task would train", "at least one worker"});
}

TEST(ClusterSpec, RefusesTwoChiefs) {
  expect_invalid(
      [] {
        spec({{TaskType::chief, addresses({"a:1", "b:1"})}}).validate();
      },
      {"2 chief tasks", "a:1, b:1", "under worker"});
  expect_invalid(
      [] {
        spec({{TaskType::master, addresses({"a:1", "b:1"})}}).validate();
      },
      {"2 master tasks", "a:1, b:1"});
}

TEST(ClusterSpec, RefusesTwoEvaluators) {
  expect_invalid(
      [] {
        spec({{TaskType::worker, addresses({"a:1"})},
              {TaskType::evaluator, addresses({"b:1", "c:1"})}})
            .validate();
      },
      {"2 evaluator tasks", "b:1, c:1", "one evaluator"});
}

TEST(ClusterSpec, RefusesAChiefBesideAMaster) {
  expect_invalid(
      [] {
        spec({{TaskType::chief, addresses({"a:1"})}, {TaskType::master, addresses({"b:1"})}})
            .validate();
      },
      {"chief (a:1)", "master (b:1)", "two names of one task"});
}

TEST(ClusterSpec, RefusesAnEvaluatorBesideAMaster) {
  expect_invalid(
      [] {
        spec({{TaskType::master, addresses({"a:1"})}, {TaskType::evaluator, addresses({"b:1"})}})
            .validate();
      },
      {"master (a:1)", "evaluator (b:1)", "rename it to chief"});
}

TEST(ClusterSpec, RefusesOneAddressForTwoTasks) {
  expect_invalid(
      [] {
        spec({{TaskType::worker, addresses({"a:1", "b:1"})}, {TaskType::ps, addresses({"b:1"})}})
            .validate();
      },
      {"worker/1 and ps/0", "b:1", "its own port"});
}

TEST(ColocatedLayout, HostZeroIsTheChiefAndEveryHostHasAPs) {
  auto workers = addresses({"ip0:22", "ip1:22", "ip2:22", "ip3:22"});
  auto servers = addresses({"ip0:33", "ip1:33", "ip2:33", "ip3:33"});
  for (TaskType chief : {TaskType::chief, TaskType::master}) {
    ClusterSpec cluster = colocated_layout(workers, servers, chief);
    EXPECT_EQ(cluster.addresses(chief), addresses({"ip0:22"}));
    EXPECT_EQ(cluster.addresses(TaskType::worker), addresses({"ip1:22", "ip2:22", "ip3:22"}));
    EXPECT_EQ(cluster.addresses(TaskType::ps), servers);
  }
  ClusterSpec single = colocated_layout(addresses({"a:1"}), addresses({"a:2"}), TaskType::chief);
  EXPECT_TRUE(single.addresses(TaskType::worker).empty());
}

TEST(ColocatedLayout, RefusesListsThatDoNotFit) {
  expect_invalid(
      [] {
        colocated_layout(addresses({"a:1", "b:1"}), addresses({"a:2"}), TaskType::chief);
      },
      {"2 worker addresses and 1 ps", "every host"});
  expect_invalid([] { colocated_layout({}, {}, TaskType::chief); }, {"0 worker addresses"});
  expect_invalid([] { colocated_layout(addresses({"a:1"}), addresses({"b:2"}), TaskType::chief); },
                 {"'a'", "'b'", "same order"});
  expect_invalid([] { colocated_layout(addresses({"a:1"}), addresses({"a:1"}), TaskType::chief); },
                 {"a:1", "its own port"});
  expect_invalid([] { colocated_layout(addresses({"a:1"}), addresses({"a:2"}), TaskType::worker); },
                 {"'worker'", "chief or master"});
}

}  // namespace
}  // namespace cohort::cluster

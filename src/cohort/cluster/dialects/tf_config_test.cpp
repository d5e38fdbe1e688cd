#include "cohort/cluster/dialects/tf_config.h"

#include <gtest/gtest.h>

#include <random>

#include "cohort/cluster/dialects/expect_invalid_test.h"
#include "cohort/cluster/dialects/sample_roles_test.h"

namespace cohort::cluster {
namespace {

constexpr const char* kPlain =
    R"({"cluster": {"worker": ["a:1", "b:1"], "ps": ["c:1"]}, "task": {"type": "worker", "index": 1}})";

void expect_tf_config_refused(const char* text, std::initializer_list<const char*> parts) {
  expect_invalid([&] { parse_tf_config(text); }, {"TF_CONFIG"});
  expect_invalid([&] { parse_tf_config(text); }, parts);
}

TEST(TfConfig, RefusesAClusterWhoseJobsHaveNoAddress) {
  expect_invalid(
      [] {
        parse_tf_config(R"({"cluster": {"worker": []}, "task": {"type": "worker", "index": 0}})");
      },
      {"cluster", "is empty", "host:port"});
}

TEST(TfConfig, TellsTaskClusterAndRanks) {
  Role role = parse_tf_config(kPlain);
  EXPECT_EQ(to_string(role.task), "worker/1");
  EXPECT_EQ(role.cluster.addresses(TaskType::worker), addresses({"a:1", "b:1"}));
  EXPECT_EQ(role.cluster.addresses(TaskType::ps), addresses({"c:1"}));
  EXPECT_EQ(role.rank, 1);
  EXPECT_EQ(role.size, 2);
  EXPECT_EQ(role.dialect, "TF_CONFIG");
  EXPECT_FALSE(role.is_chief());
}

TEST(TfConfig, WithoutAClusterTheProcessIsAlone) {
  for (const char* text :
       {"{}", R"({"cluster": {}})", R"({"cluster": null, "task": {}})",
        R"({"cluster": {"worker": [], "ps": []}})", R"({"task": {"type": "", "index": 0}})",
        R"({"environment": "cloud", "task": {"type": "worker"}})", R"({"task": null})"}) {
    Role role = parse_tf_config(text);
    EXPECT_EQ(to_string(role.task), "worker/0") << text;
    EXPECT_EQ(role.rank, 0) << text;
    EXPECT_EQ(role.size, 1) << text;
    EXPECT_TRUE(role.is_chief()) << text;
  }
  EXPECT_EQ(to_string(parse_tf_config(R"({"task": {"type": "chief", "index": 0}})").task),
            "chief/0");
  EXPECT_EQ(parse_tf_config(R"({"task": {"type": "evaluator", "index": 0}})").rank, -1);
  expect_tf_config_refused(R"({"task": {"type": "worker", "index": 1}})",
                           {"worker/1", "no cluster"});
  expect_tf_config_refused(R"({"task": {"type": "ps", "index": 0}})",
                           {"ps/0", "no cluster", "cluster"});
}

TEST(TfConfig, AnIndexMayBeTextAndMayBeMissingForTheOnlyTaskOfAJob) {
  EXPECT_EQ(parse_tf_config(R"({"cluster": {"worker": ["a:1", "b:1"]},
                                "task": {"type": "worker", "index": "1"}})")
                .rank,
            1);
  EXPECT_EQ(parse_tf_config(R"({"cluster": {"chief": ["c:1"], "worker": ["a:1", "b:1"]},
                                "task": {"type": "chief"}})")
                .rank,
            0);
  expect_tf_config_refused(R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker"}})",
                           {"type worker but no index", "0 to 1"});
  for (const char* bad : {"-1", "1.5", "\"one\"", "true", "[0]", "99999999999999999999", "\"\""})
    expect_tf_config_refused(fmt::format(R"({{"cluster": {{"worker": ["a:1"]}},
                                    "task": {{"type": "worker", "index": {}}}}})",
                                         bad)
                                 .c_str(),
                             {"index", "whole number"});
}

TEST(TfConfig, AJobMayBeADictionaryWithoutGaps) {
  Role role = parse_tf_config(
      R"({"cluster": {"worker": {"1": "b:1", "0": "a:1", "2": "c:1"}}, "task": {"type": "worker", "index": 2}})");
  EXPECT_EQ(role.cluster.addresses(TaskType::worker), addresses({"a:1", "b:1", "c:1"}));
  EXPECT_EQ(role.rank, 2);
  expect_tf_config_refused(
      R"({"cluster": {"worker": {"0": "a:1", "2": "c:1"}}, "task": {"type": "worker", "index": 0}})",
      {"\"worker\"", "task 2 but no task 1", "without gaps"});
  expect_tf_config_refused(R"({"cluster": {"worker": {"first": "a:1"}}})",
                           {"\"first\"", "0, 1, 2"});
  expect_tf_config_refused(R"({"cluster": {"worker": {"0": "a:1", "00": "b:1"}}})",
                           {"worker/0", "two addresses"});
}

TEST(TfConfig, IgnoresEnvironmentRpcLayerAndUnknownKeys) {
  Role role = parse_tf_config(
      R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0, "trial": "7"},
          "environment": 5, "rpc_layer": "grpc", "job": {"x": []}})");
  EXPECT_EQ(role.size, 1);
}

TEST(TfConfig, AnEvaluatorNeedNotBeListed) {
  Role role = parse_tf_config(
      R"({"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "evaluator", "index": 0}})");
  EXPECT_EQ(to_string(role.task), "evaluator/0");
  EXPECT_EQ(role.rank, -1);
  EXPECT_EQ(role.size, 2);
  EXPECT_FALSE(role.is_chief());
}

TEST(TfConfig, MasterIsTheChief) {
  Role role = parse_tf_config(
      R"({"cluster": {"master": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": 0}})");
  EXPECT_EQ(role.rank, 1);
  EXPECT_EQ(role.cluster.chief(), (TaskId{TaskType::master, 0}));
}

TEST(TfConfig, BrokenJsonIsRefusedWithThePlace) {
  expect_tf_config_refused(R"({"cluster": {"worker": ['a:1']}})",
                           {"line 1, column 25 (offset 24)", "`'a:1']}}`", "double quotes"});
  expect_tf_config_refused("garbage", {"line 1, column 1", "garbage"});
  expect_tf_config_refused(R"({"cluster": )", {"ends too early"});
  expect_tf_config_refused("{\"x\": \"\xff\"}", {"not JSON"});
  expect_tf_config_refused(R"({"x": 1e999})", {"not JSON"});
  expect_tf_config_refused("[1, 2]", {"[1,2]", "not a dictionary"});
}

TEST(TfConfig, WrongTypesAreRefusedByName) {
  expect_tf_config_refused(R"({"cluster": "a:1"})",
                           {"cluster is \"a:1\"", "\"worker\": [\"host:port\""});
  expect_tf_config_refused(R"({"cluster": {"worker": "a:1"}})",
                           {"\"worker\" is \"a:1\"", "not a list"});
  expect_tf_config_refused(R"({"cluster": {"worker": [7]}})", {"worker/0 is 7", "host:port"});
  expect_tf_config_refused(R"({"task": "worker"})", {"task is \"worker\"", "\"type\""});
  expect_tf_config_refused(R"({"task": {"type": 3}})", {"type is 3"});
}

TEST(TfConfig, BadClustersAreRefusedByName) {
  expect_tf_config_refused(R"({"cluster": {"wroker": ["a:1"]}})",
                           {"Invalid task type 'wroker'", "'worker'?"});
  expect_tf_config_refused(
      R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "boss", "index": 0}})",
      {"Invalid task type 'boss'"});
  expect_tf_config_refused(
      R"({"cluster": {"worker": ["a:1", "me@b:1"]}, "task": {"type": "worker", "index": 0}})",
      {"worker/1", "me@b:1", "write 'b:1'"});
  expect_tf_config_refused(
      R"({"cluster": {"worker": ["a:1", "b"]}, "task": {"type": "worker", "index": 0}})",
      {"worker/1", "'b' has no port"});
  expect_tf_config_refused(
      R"({"cluster": {"worker": ["a:70000"]}, "task": {"type": "worker", "index": 0}})",
      {"worker/0", "70000", "1 to 65535"});
  expect_tf_config_refused(
      R"({"cluster": {"worker": ["a:1", "a:1"]}, "task": {"type": "worker", "index": 0}})",
      {"worker/0 and worker/1", "a:1", "its own port"});
  expect_tf_config_refused(
      R"({"cluster": {"chief": ["a:1", "b:1"]}, "task": {"type": "chief", "index": 0}})",
      {"2 chief tasks"});
  expect_tf_config_refused(
      R"({"cluster": {"chief": ["a:1"], "master": ["b:1"]}, "task": {"type": "chief", "index": 0}})",
      {"chief (a:1)", "master (b:1)"});
  expect_tf_config_refused(
      R"({"cluster": {"master": ["a:1"], "evaluator": ["b:1"]}, "task": {"type": "master", "index": 0}})",
      {"evaluator (b:1)"});
}

TEST(TfConfig, TheTaskMustBeOneOfTheCluster) {
  expect_tf_config_refused(R"({"cluster": {"worker": ["a:1"]}})",
                           {"which of its tasks", "\"task\""});
  expect_tf_config_refused(R"({"cluster": {"worker": ["a:1"]}, "task": {"index": 0}})",
                           {"which of its tasks"});
  expect_tf_config_refused(
      R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 2}})",
      {"worker/2", "out of range", "0 to 1"});
  expect_tf_config_refused(
      R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "ps", "index": 0}})",
      {"no ps tasks", "ps/0"});
}

TEST(TfConfig, WritesOneCompactLineWithoutTheEvaluator) {
  EXPECT_EQ(
      write_tf_config(role_in(two_hosts(), {TaskType::worker, 1})),
      R"({"cluster":{"chief":["h0:2000"],"worker":["h0:2001","[fe80::1]:2000","[fe80::1]:2001"],)"
      R"("ps":["h0:3000","[fe80::1]:3000"]},"task":{"type":"worker","index":1},"environment":"cloud"})");
  std::string evaluator = write_tf_config(role_in(two_hosts(), {TaskType::evaluator, 0}));
  EXPECT_NE(evaluator.find(R"("task":{"type":"evaluator","index":0})"), std::string::npos);
  EXPECT_EQ(evaluator.find("4000"), std::string::npos);
  std::string master = write_tf_config(role_in(two_hosts(TaskType::master), {TaskType::ps, 0}));
  EXPECT_NE(master.find(R"("master":["h0:2000"])"), std::string::npos);
  EXPECT_EQ(master.find("chief"), std::string::npos);
}

TEST(TfConfig, EveryTaskSurvivesTheRoundTrip) {
  for (TaskType chief : {TaskType::chief, TaskType::master}) {
    ClusterSpec listed = two_hosts(chief);
    ClusterSpec without_evaluator = listed;
    without_evaluator.set(TaskType::evaluator, {});
    for (const TaskId& task : listed.tasks()) {
      Role wanted;
      wanted.task = task;
      wanted.cluster = without_evaluator;
      wanted.dialect = "TF_CONFIG";
      fill_ranks(wanted);
      EXPECT_EQ(parse_tf_config(write_tf_config(role_in(listed, task))), wanted) << to_string(task);
    }
  }
}

TEST(TfConfig, DamagedTextsAreRefusedAndNeverCrash) {
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = kPlain;
    for (int change = 0; change < 1 + round % 4; ++change) {
      size_t at = random() % text.size();
      if (random() % 2)
        text[at] = static_cast<char>(random());
      else
        text.erase(at, 1 + random() % 9);
      if (text.empty()) break;
    }
    try {
      Role role = parse_tf_config(text);
      EXPECT_LT(role.rank, role.size);
    } catch (const InvalidInput&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 2000);
}

}  // namespace
}  // namespace cohort::cluster

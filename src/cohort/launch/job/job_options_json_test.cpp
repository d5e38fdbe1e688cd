#include "cohort/launch/job/job_options_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort::launch {
namespace {

using ::testing::HasSubstr;

// Every field has a value that is not its default.
JobOptions unusual() {
  return {.command = {"./train", "--name", "a \"b\""},
          .workers = 8,
          .ps = 2,
          .evaluator = true,
          .chief_name = ChiefName::master,
          .coordinator = true,
          .layout = Layout::colocated,
          .strategy = "multi_worker_mirrored",
          .output = "some/folder",
          .keep = 3,
          .success = SuccessPolicy::worker0,
          .grace = std::chrono::milliseconds(1250),
          .max_restarts = 4,
          .task_restarts = 5,
          .environment = {{"A", "1"}, {"B", "x=y"}},
          .scheduler_args = true,
          .gpus_per_worker = 3,
          .threads_per_task = 6,
          .proxy = ProxyMode::strip,
          .hosts = {{"node1", 4}, {"node2", std::nullopt}},
          .slots_per_host = 2,
          .remote = {.shell = "ip netns exec", .cohort = "/opt/cohort", .address = "10.0.0.1"},
          .horovod = true,
          .show = {"worker:0"},
          .quiet = true,
          .elastic = ElasticOptions{.least = 2,
                                    .most = 8,
                                    .lease = std::chrono::milliseconds(500),
                                    .timeout = std::chrono::milliseconds(9000),
                                    .task_restarts = 7,
                                    .discovery_script = "hosts.sh"},
          .resume = true};
}

std::string refusal(const nlohmann::json& json) {
  return message_of<InvalidInput>([&] { job_options_from_json(json.dump(), "job-options.json"); });
}

TEST(JobOptionsJson, GivesBackEveryOption) {
  EXPECT_EQ(job_options_from_json(to_json(unusual()), "x"), unusual());
  JobOptions plain;
  plain.command = {"true"};
  EXPECT_EQ(job_options_from_json(to_json(plain), "x"), plain);
}

TEST(JobOptionsJson, EveryKeyMattersAndNoOtherIsTaken) {
  const auto whole = nlohmann::json::parse(to_json(unusual()));
  for (const auto& [key, value] : whole.items()) {
    auto without = whole;
    without.erase(key);
    EXPECT_THAT(refusal(without), HasSubstr("has no '" + key + "'"));
  }
  auto with = whole;
  with["elastic"]["colour"] = 1;
  EXPECT_THAT(refusal(with), HasSubstr("'elastic' has an unknown key 'colour'"));
}

TEST(JobOptionsJson, AValueOfTheWrongKindIsNamed) {
  auto json = nlohmann::json::parse(to_json(unusual()));
  json["proxy"] = "maybe";
  EXPECT_THAT(refusal(json), HasSubstr("job-options.json has \"maybe\" as 'proxy'"));
  json = nlohmann::json::parse(to_json(unusual()));
  json["workers"] = "many";
  EXPECT_THAT(refusal(json), HasSubstr("has \"many\" as 'workers'"));
  json = nlohmann::json::parse(to_json(unusual()));
  json["hosts"] = {5};
  EXPECT_THAT(refusal(json), HasSubstr("a host is no JSON object"));
  EXPECT_THAT(message_of<InvalidInput>([] { job_options_from_json("{\"command\": ", "FILE"); }),
              HasSubstr("FILE is no JSON object"));
}

}  // namespace
}  // namespace cohort::launch

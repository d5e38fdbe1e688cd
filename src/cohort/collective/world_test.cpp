#include "cohort/collective/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/net/socket.h"

namespace cohort::collective {
namespace {

using cluster::Environment;
using cluster::Role;
using ::testing::AllOf;
using ::testing::HasSubstr;

NetworkOptions options_from(Environment environment) {
  const Role role = cluster::discover_role(environment, {});
  return NetworkOptions::from(environment, role);
}

Environment tf_config(const std::string& hosts, const std::string& type, int index) {
  return {{"TF_CONFIG", fmt::format(R"({{"cluster": {}, "task": {{"type": "{}", "index": {}}}}})",
                                    hosts, type, index)}};
}

TEST(NetworkOptions, TheVariablesAreRead) {
  const NetworkOptions plain = options_from({});
  EXPECT_FALSE(plain.secret || plain.insecure || plain.tls);
  EXPECT_EQ(plain.streams, 0);
  EXPECT_EQ(plain.bind_host, "127.0.0.1");
  EXPECT_EQ(plain.silence, std::chrono::seconds(10));

  ScratchFolder folder;
  const Secret secret = Secret::generate();
  secret.write_file(folder.path() / "secret");
  const NetworkOptions all = options_from({{"COHORT_SECRET_FILE", folder.path() / "secret"},
                                           {"COHORT_INSECURE", "1"},
                                           {"COHORT_TLS", "1"},
                                           {"COHORT_STREAMS", "4"},
                                           {"COHORT_SILENCE", "60"}});
  EXPECT_EQ(all.secret->bytes(), secret.bytes());
  EXPECT_TRUE(all.insecure && all.tls);
  EXPECT_EQ(all.streams, 4);
  EXPECT_EQ(all.silence, std::chrono::minutes(1));
  EXPECT_EQ(options_from({{"COHORT_SILENCE", "0"}}).silence.count(), 0);
}

TEST(NetworkOptions, AWrongValueIsRefusedByName) {
  for (const auto& [name, value] :
       {std::pair("COHORT_TLS", "yes"), std::pair("COHORT_STREAMS", "17"),
        std::pair("COHORT_STREAMS", "two"), std::pair("COHORT_SILENCE", "-1"),
        std::pair("COHORT_INSECURE", "2")})
    EXPECT_THAT(message_of<InvalidInput>([&, n = name, v = value] {
                  options_from({{n, v}});
                }),
                AllOf(HasSubstr(name), HasSubstr(value)));
}

TEST(NetworkOptions, OnlyRank0ReadsATuningTable) {
  ScratchFolder folder;
  write_file_atomically(folder.path() / "t.json", "no table");
  const auto rank = [&](const char* number) {
    return options_from({{"COHORT_TUNING", folder.path() / "t.json"},
                         {"COHORT_RANK", number},
                         {"COHORT_SIZE", "2"}});
  };
  EXPECT_THAT(message_of<InvalidInput>([&] { rank("0"); }), HasSubstr("t.json"));
  rank("1");
}

TEST(NetworkOptions, WhereToBindFollowsFromTheRole) {
  const auto loopback =
      options_from(tf_config(R"({"worker": ["localhost:1", "localhost:2"]})", "worker", 0));
  EXPECT_EQ(loopback.bind_host, "127.0.0.1");
  const auto hosts = options_from(tf_config(R"({"worker": ["a:1", "b:2"]})", "worker", 1));
  EXPECT_EQ(hosts.bind_host, "");
  EXPECT_EQ(hosts.advertise, "b");
  const Environment ranks = {{"COHORT_RANK", "0"}, {"COHORT_SIZE", "2"}};
  Environment stored = ranks;
  stored["COHORT_STORE"] = "a:1";
  EXPECT_EQ(options_from(stored).bind_host, "");
  stored["COHORT_STORE"] = "127.0.0.1:1";
  EXPECT_EQ(options_from(stored).bind_host, "127.0.0.1");
  Environment spread = {{"OMPI_COMM_WORLD_RANK", "0"},
                        {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}};
  EXPECT_EQ(options_from(spread).bind_host, "");
  spread["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  EXPECT_EQ(options_from(spread).bind_host, "127.0.0.1");
}

TEST(World, AloneItHasOneRank) {
  World world = join_world(Environment{}, {});
  float x = 3;
  world.group->all_reduce(&x, &x, 1, DataType::f32);
  EXPECT_EQ(world.group->size(), 1);
  EXPECT_EQ(x, 3);
  world.leave();
}

// Runs a job of one task an environment; each adds up its rank + 1.
void expect_sum(const std::vector<Environment>& tasks, float expected) {
  std::vector<std::future<void>> running;
  for (const Environment& environment : tasks)
    running.push_back(std::async(std::launch::async, [=] {
      World world = join_world(environment, {});
      if (world.group) {
        float x = static_cast<float>(world.group->rank() + 1);
        world.group->all_reduce(&x, &x, 1, DataType::f32);
        EXPECT_EQ(x, expected);
        EXPECT_EQ(world.group->backend_name(), "shm");
      }
      world.leave(Deadline::after(std::chrono::seconds(20)));
    }));
  for (auto& task : running) task.get();
}

int free_port() { return local_endpoint(listen_on(Endpoint::tcp("127.0.0.1", 0)).get()).port(); }

TEST(World, TasksStartedByHandFindTheirRanks) {
  const std::string hosts =
      fmt::format(R"({{"worker": ["localhost:{}", "localhost:1"]}})", free_port());
  expect_sum({tf_config(hosts, "worker", 0), tf_config(hosts, "worker", 1)}, 3);
}

TEST(World, TasksOfMpirunShareASecretThatTheyMade) {
  ScratchFolder folder;
  std::vector<Environment> tasks;
  for (const char* rank : {"0", "1"})
    tasks.push_back({{"OMPI_COMM_WORLD_RANK", rank},
                     {"OMPI_COMM_WORLD_SIZE", "2"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", rank},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                     {"PMIX_NAMESPACE", "1"},
                     {"XDG_RUNTIME_DIR", folder.path()}});
  expect_sum(tasks, 3);
}

TEST(World, ATaskThatDoesNotTrainHasNoRank) {
  Role role;
  role.task = {cluster::TaskType::ps, 0};
  role.rank = -1;
  const auto session = cluster::Session::join(role, {});
  EXPECT_THAT(message_of<InvalidInput>([&] { form_world(*session, {}); }), HasSubstr("ps/0"));
}

TEST(World, ATaskWithAnotherSecretIsTurnedAway) {
  ScratchFolder folder;
  const std::string hosts =
      fmt::format(R"({{"worker": ["localhost:{}", "localhost:1"]}})", free_port());
  const auto with_secret = [&](int index) {
    const auto file = folder.path() / std::to_string(index);
    Secret::generate().write_file(file);
    Environment environment = tf_config(hosts, "worker", index);
    environment["COHORT_SECRET_FILE"] = file;
    return environment;
  };
  const Environment chief = with_secret(0);
  const auto session = cluster::Session::join(cluster::discover_role(chief, {}),
                                              cluster::SessionOptions::from(chief));
  message_of<AuthError>([&] { join_world(with_secret(1), {}); });
}

}  // namespace
}  // namespace cohort::collective

#include "cohort/engine/kubernetes/cluster_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/engine/kubernetes/small_yaml.h"

namespace cohort::engine::kubernetes {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kClusters = R"(# as kubectl writes it
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: Y2VydA==
    server: https://10.0.0.1:6443/k8s/c1
  name: "far"   # quoted
contexts:
- context:
    cluster: far
    namespace: training
    user: ann
  name: a@far
- context: {}
  name: empty
current-context: a@far
kind: Config
preferences: {}
users:
- name: ann
  user:
)";

std::string file_with_user(const ScratchFolder& scratch, const std::string& user) {
  const std::string file = (scratch / "config").string();
  write_file_atomically(file, kClusters + user);
  return file;
}

TEST(SmallYaml, ReadsWhatKubectlWritesAndRefusesTheRest) {
  EXPECT_EQ(read_small_yaml("a: 1\nb:\n- x: 'it''s'\n  y: \"t\\n\"\n- plain # no\nc: {}\n", "f"),
            json::parse(R"({"a":"1","b":[{"x":"it's","y":"t\n"},"plain"],"c":{}})"));
  EXPECT_EQ(read_small_yaml("{\"a\": [1]}", "f"), json::parse(R"({"a":[1]})"));
  EXPECT_EQ(read_small_yaml("", "f"), json::object());
  const auto refused = [](const std::string& text) {
    return message_of<InvalidInput>([&] { read_small_yaml(text, "f"); });
  };
  EXPECT_THAT(refused("a: 1\nb: &x 2\n"), HasSubstr("f line 2"));
  EXPECT_THAT(refused("a: |\n  text\n"), HasSubstr("f line 1"));
  EXPECT_THAT(refused("a: 1\n   b: 2\n"), HasSubstr("f line 2"));
  EXPECT_THAT(refused("- \n"), HasSubstr("f line 1"));
  EXPECT_THAT(refused("word\n"), HasSubstr("f line 1"));
}

TEST(Kubeconfigs, TheCurrentContextSaysWhereAndWho) {
  const ScratchFolder scratch;
  const ClusterAccess access = read_kubeconfig(file_with_user(scratch, "    tokenFile: token\n"));
  EXPECT_EQ(access.server, "https://10.0.0.1:6443");
  EXPECT_EQ(access.prefix, "/k8s/c1");
  EXPECT_EQ(access.name_space, "training");
  EXPECT_EQ(read_file(access.ca_file), "cert");
  std::ofstream(scratch / "token") << "one\n";
  EXPECT_EQ(access.token(), "one");
  std::ofstream(scratch / "token") << "two\n";
  EXPECT_EQ(access.token(), "two");
}

TEST(Kubeconfigs, ATokenInTheFileIsReadAnew) {
  const ScratchFolder scratch;
  const ClusterAccess access = read_kubeconfig(file_with_user(scratch, "    token: one\n"));
  EXPECT_EQ(access.token(), "one");
  file_with_user(scratch, "    token: two\n");
  EXPECT_EQ(access.token(), "two");
}

TEST(Kubeconfigs, WhatWouldRunAProgramOrTrustAnyoneIsRefused) {
  const ScratchFolder scratch;
  const auto refused = [&](const std::string& user, const std::string& context) {
    const std::string file = file_with_user(scratch, user);
    return message_of<InvalidInput>([&] { read_kubeconfig(file, context); });
  };
  EXPECT_THAT(refused("    exec:\n      command: aws\n", ""), HasSubstr("by exec"));
  EXPECT_THAT(refused("    token: x\n", "absent"), HasSubstr("no context 'absent'"));
  EXPECT_THAT(refused("    token: x\n", "empty"), HasSubstr("no cluster ''"));
}

TEST(AccessInAPod, IsThatOfItsServiceAccount) {
  const ScratchFolder scratch;
  std::ofstream(scratch / "token") << "t";
  std::ofstream(scratch / "namespace") << "team";
  const ClusterAccess access = access_in_cluster(
      {{"KUBERNETES_SERVICE_HOST", "fd00::1"}, {"KUBERNETES_SERVICE_PORT", "443"}}, scratch.path());
  EXPECT_EQ(access.server, "https://[fd00::1]:443");
  EXPECT_EQ(access.name_space, "team");
  EXPECT_EQ(access.token(), "t");
  EXPECT_THROW(access_in_cluster({}, scratch.path()), InvalidInput);
}

}  // namespace
}  // namespace cohort::engine::kubernetes

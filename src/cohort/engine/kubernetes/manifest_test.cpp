#include "cohort/engine/kubernetes/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort::engine::kubernetes {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

ManifestInput workers(int count) {
  ManifestInput input{.name = "cohort-train-1", .secret = std::string(64, 'a')};
  input.request.id = "train-1.2";
  input.request.job.spec.name = "train";
  input.request.job.program = {"./train"};
  input.asked.command = {"./train"};
  input.asked.workers = count;
  return input;
}

TEST(JobNames, AreLabelsOfDnsWithRoomForAnIndex) {
  EXPECT_EQ(job_name("Train_It", "0a1b"), "cohort-train-it-0a1b");
  const std::string long_one = job_name(std::string(200, 'X'), "0123456789");
  EXPECT_LE(long_one.size(), 52u);
  EXPECT_THAT(long_one, MatchesRegex("[a-z]([-a-z0-9]*[a-z0-9])?"));
}

TEST(Layouts, EveryTaskHasAPodAndFindsTheOthersByName) {
  launch::JobOptions options;
  options.command = {"x"};
  options.workers = 2;
  options.ps = 1;
  options.id = "job";
  const Pods pods = lay_out_pods(options, "j", "s");
  EXPECT_EQ(pods.count(), 3);
  EXPECT_EQ(pods.gating, 2);
  EXPECT_EQ(pods.task_name(2), "ps:0");
  const cluster::Role role = pod_role(options, pods, 1);
  EXPECT_EQ(role.rank, 1);
  EXPECT_EQ(role.size, 2);
  EXPECT_EQ(role.local_size, 1);
  EXPECT_EQ(cluster::to_string(role.cluster.address(role.task)), "j-1.s:7070");
  EXPECT_EQ(role.master->host, "j-0.s");
  EXPECT_FALSE(role.store);  // the chief hosts it
  EXPECT_THROW(pod_role(options, pods, 3), InvalidInput);
  options.hosts = {{"node1", 2}};
  EXPECT_THROW(lay_out_pods(options, "j", "s"), InvalidInput);
}

TEST(Layouts, AnElasticJobHasACoordinatorFirst) {
  launch::JobOptions options;
  options.command = {"x"};
  options.workers = 3;
  options.elastic = launch::ElasticOptions{.least = 1, .most = 3};
  const Pods pods = lay_out_pods(options, "j", "j");
  EXPECT_EQ(pods.task_name(0), "coordinator:0");
  EXPECT_EQ(pods.task_name(1), "worker:0");
  EXPECT_EQ(pods.task_name(4), "worker:3");
  EXPECT_EQ(pods.gating, 1);
  EXPECT_EQ(pod_role(options, pods, 1).store->host, "j-0.j");
}

TEST(Manifests, SecretsAreInTheSecretAlone) {
  ManifestInput input = workers(2);
  input.request.job.spec.env = {{"TOKEN", "hidden"}};
  const Manifest manifest = make_manifest(input, {.image = "i"});
  for (const Json& object : {manifest.job, manifest.service}) {
    EXPECT_THAT(object.dump(), ::testing::Not(HasSubstr("hidden")));
    EXPECT_THAT(object.dump(), ::testing::Not(HasSubstr(input.secret)));
  }
  EXPECT_EQ(manifest.pods, 2);
}

TEST(Manifests, SayWhatCannotRun) {
  const auto refused = [](const ManifestInput& input, const PodOptions& options) {
    return message_of<InvalidInput>([&] { make_manifest(input, options); });
  };
  EXPECT_THAT(refused(workers(1), {}), HasSubstr("needs an image"));
  ManifestInput mpi = workers(1);
  mpi.request.job.spec.distribution = jobspec::Distribution::mpi;
  EXPECT_THAT(refused(mpi, {.image = "i"}), HasSubstr("mpirun"));
  ManifestInput large = workers(1);
  large.source = std::string(kMostSourceBytes + 1, 'x');
  EXPECT_THAT(refused(large, {.image = "i"}), HasSubstr("the packed source has"));
}

TEST(Volumes, AreClaimsWithAPath) {
  EXPECT_EQ(parse_volume("mnist:/data"), (ClaimVolume{"mnist", "/data"}));
  EXPECT_EQ(parse_volume("mnist:/data:ro"), (ClaimVolume{"mnist", "/data", true}));
  for (const char* text : {"", "mnist", ":/data", "mnist:data", "mnist:/", "m:/a:rw"})
    EXPECT_THROW(parse_volume(text), InvalidInput) << text;
}

}  // namespace
}  // namespace cohort::engine::kubernetes

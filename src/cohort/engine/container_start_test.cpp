#include "cohort/engine/container_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/text.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;
using cluster::Environment;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

AttemptRequest image_job(const ScratchFolder& scratch) {
  fs::create_directories(scratch / "code");
  fs::create_directories(scratch / "data");
  std::ofstream(scratch / "code/train.py") << "";
  std::ofstream(scratch / "words.txt") << "";
  AttemptRequest request{.id = "job.1",
                         .folder = scratch / "1",
                         .output = scratch / "output",
                         .model = scratch / "output/model",
                         .source = scratch / "code"};
  request.job.runtime = {.kind = jobspec::RuntimeEnvironment::Kind::image, .place = "site/tf:2"};
  request.job.spec.inputs = {{"training", "file://" + (scratch / "data").string()},
                             {"words", (scratch / "words.txt").string()},
                             {"far", "s3://bucket/x"}};
  return request;
}

std::string command_line(const AttemptRequest& request, const Environment& inherited,
                         const ContainerHost& host) {
  return join(container_command(request, task_start(request, {"train.py"}, inherited), host), " ");
}

TEST(ContainerPlaces, AreTheSameForEveryJob) {
  const ScratchFolder scratch;
  AttemptRequest request = image_job(scratch);
  const ContainerPlaces places = container_places(request.job, folders_here(request, {}));
  EXPECT_EQ(places.inside.output, "/data/output");
  EXPECT_EQ(places.inside.model, "/data/output/model");
  EXPECT_EQ(places.inside.source, "/data/code");
  EXPECT_EQ(places.inside.channels.at("training"), "/data/input/training");
  EXPECT_EQ(places.inside.channels.at("words"), "/data/input/words/words.txt");
  EXPECT_FALSE(places.inside.channels.contains("far"));
  for (const Mount& mount : places.mounts)
    EXPECT_EQ(mount.writable, mount.inside == "/data/output") << mount.inside;
  request.model = scratch / "elsewhere";
  EXPECT_EQ(container_places(request.job, folders_here(request, {})).inside.model, "/data/model");
}

TEST(TasksInContainers, FindTheirFoldersInsideAndNothingOfTheHost) {
  const ScratchFolder scratch;
  const AttemptRequest request = image_job(scratch);
  const TaskStart start = task_start(request, {"train.py", "--epochs", "3"},
                                     {{"PATH", "/host/bin"},
                                      {"HOME", "/root"},
                                      {"LD_LIBRARY_PATH", "/host/lib"},
                                      {"TF_CONFIG", "{}"},
                                      {"COHORT_RANK", "0"},
                                      {"COHORT_OUTPUT", "/launcher"},
                                      {"COHORT_TASK", "{}"},
                                      {"NCCL_DEBUG", "INFO"},
                                      {"CUDA_VISIBLE_DEVICES", "2"},
                                      {"no_proxy", "localhost"}});
  EXPECT_THAT(start.command, ElementsAre("python3", "/data/code/train.py", "--epochs", "3"));
  EXPECT_EQ(start.folder, "/data/code");
  const Environment& set = start.environment;
  EXPECT_EQ(set.find_value("COHORT_OUTPUT"), "/data/output");
  EXPECT_EQ(set.find_value("SM_MODEL_DIR"), "/data/output/model");
  EXPECT_EQ(set.find_value("SM_CHANNEL_TRAINING"), "/data/input/training");
  EXPECT_EQ(set.find_value("SM_CHANNEL_FAR"), "s3://bucket/x");
  EXPECT_EQ(set.find_value("PYTHONPATH"), "/data/code");
  for (const char* name : {"PATH", "HOME", "LD_LIBRARY_PATH", "COHORT_TASK"})
    EXPECT_FALSE(set.contains(name)) << name;
  for (const char* name : {"TF_CONFIG", "COHORT_RANK", "NCCL_DEBUG", "no_proxy"})
    EXPECT_TRUE(set.contains(name)) << name;
}

TEST(TheCommandOfAContainer, SaysAllThatTheTaskNeedsAndNoValueOfAVariable) {
  const ScratchFolder scratch;
  AttemptRequest request = image_job(scratch);
  request.job.spec.env = request.job.env = {{"TOKEN", "hidden"}, {"LINES", "hidden\ntoo"}};
  const std::string line = command_line(
      request,
      {{"COHORT_TASK_TYPE", "worker"}, {"COHORT_TASK_INDEX", "1"}, {"CUDA_VISIBLE_DEVICES", "2,5"}},
      {.tool = {.words = {"podman", "--root", "/x"}},
       .mounts = {{"/here/out", "/data/output", true}, {"/here/code", "/data/code", false}},
       .user = "1000:100",
       .is_rootless = true,
       .file_limit = "1024:4096",
       .variables_fd = 64,
       .descriptors = 2});
  EXPECT_THAT(line, HasSubstr("podman --root /x run --rm --replace --name cohort-job.1-worker-1 "));
  EXPECT_THAT(line, HasSubstr("--label cohort.job=job --label cohort.attempt=job.1 "));
  EXPECT_THAT(line, HasSubstr("--network host --ipc host --pid host "));
  EXPECT_THAT(line, HasSubstr("--ulimit nofile=1024:4096 --user 1000:100 --userns keep-id "));
  EXPECT_THAT(line, HasSubstr("--mount type=bind,source=/here/out,target=/data/output "));
  EXPECT_THAT(line, HasSubstr("--mount type=bind,source=/here/code,target=/data/code,readonly "));
  EXPECT_THAT(line, HasSubstr("--device nvidia.com/gpu=2 --device nvidia.com/gpu=5 "));
  EXPECT_THAT(line, HasSubstr("--preserve-fds 2 --env-file /proc/self/fd/64 --env LINES "));
  EXPECT_TRUE(
      line.ends_with("--workdir /data/code --entrypoint  site/tf:2 python3 /data/code/train.py"))
      << line;
  EXPECT_THAT(line, Not(HasSubstr("hidden")));
}

TEST(TheCommandOfAContainer, IsDockersForDocker) {
  const ScratchFolder scratch;
  const std::string line =
      command_line(image_job(scratch), {{"CUDA_VISIBLE_DEVICES", "2,5"}},
                   {.tool = {.words = {"docker"}, .is_docker = true}, .user = "0:0"});
  EXPECT_THAT(line, HasSubstr("--gpus \"device=2,5\" "));
  EXPECT_THAT(line, Not(HasSubstr("--replace")));
  EXPECT_THAT(line, Not(HasSubstr("--preserve-fds")));
}

TEST(TheFileOfVariables, HasWhatFitsALine) {
  const Environment variables{
      {"A", "b c=d"}, {"B", "two\nlines"}, {"C", std::string(40'000, 'x')}, {"D", ""}};
  EXPECT_EQ(variables_file(variables), "A=b c=d\nD=\n");
}

// A tool that says what it was asked and knows no image but "here".
Environment with_tool(const ScratchFolder& scratch, const std::string& name) {
  fs::create_directories(scratch / "bin");
  write_file_atomically(scratch / "bin" / name,
                        "#!/bin/sh\nfor word; do :; done\n[ \"$word\" = here ] && exit 0\n"
                        "echo \"Error: $word: image not known\" >&2; exit 125\n",
                        0755);
  return {{"PATH", (scratch / "bin").string()}};
}

TEST(TheToolForContainers, IsPodmanElseDockerElseTheOneThatIsNamed) {
  const ScratchFolder docker, both;
  EXPECT_TRUE(find_container_tool(with_tool(docker, "docker")).is_docker);
  with_tool(both, "docker");
  Environment environment = with_tool(both, "podman");
  EXPECT_THAT(find_container_tool(environment).words, ElementsAre("podman"));
  environment[kContainerToolVariable] = "docker --context 'a b'";
  EXPECT_THAT(find_container_tool(environment).words, ElementsAre("docker", "--context", "a b"));
  environment[kContainerToolVariable] = "nowhere";
  EXPECT_THAT(message_of<InvalidInput>([&] { find_container_tool(environment); }),
              HasSubstr("nowhere"));
  EXPECT_THAT(message_of<InvalidInput>([] {
                find_container_tool({{"PATH", "/nowhere"}});
              }),
              HasSubstr("neither podman nor docker"));
}

TEST(WhatAHostLacks, IsTheImageWithTheCommandThatFetchesIt) {
  const ScratchFolder scratch;
  AttemptRequest request = image_job(scratch);
  request.job.program = {"train.py"};
  const Environment environment = with_tool(scratch, "podman");
  EXPECT_THAT(
      missing_here(request, environment, Looked::at_all),
      ElementsAre("the image 'site/tf:2' is not here (exit code 125: Error: site/tf:2: image "
                  "not known); fetch it with: podman pull site/tf:2"));
  request.job.runtime.place = "here";
  EXPECT_THAT(missing_here(request, environment, Looked::at_all), IsEmpty());
  request.job.program = {"python3", "gone.py"};
  request.output = "/a,b";
  EXPECT_THAT(missing_here(request, environment, Looked::at_all),
              ElementsAre(HasSubstr("'/a,b' has a comma"), HasSubstr("'gone.py' not found")));
  EXPECT_THAT(missing_here(request, {{"PATH", "/nowhere"}}, Looked::beside_program),
              ElementsAre(HasSubstr("neither podman nor docker"), HasSubstr("comma")));
}

}  // namespace
}  // namespace cohort::engine

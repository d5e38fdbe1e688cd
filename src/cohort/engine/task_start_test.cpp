#include "cohort/engine/task_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cohort/base/files/scratch_folder_test.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;
using cluster::Environment;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two instances of two processes each.
AttemptRequest two_by_two(const ScratchFolder& scratch) {
  fs::create_directories(scratch / "code");
  AttemptRequest request{.id = "job.1",
                         .folder = scratch / "1",
                         .output = scratch / "output",
                         .model = scratch / "model",
                         .source = scratch / "code"};
  request.job.instances = 2;
  request.job.processes = 4;
  return request;
}

TEST(TaskInstances, FollowTheRankOfTheLauncherOrOfMpirun) {
  const ScratchFolder scratch;
  const AttemptRequest request = two_by_two(scratch);
  EXPECT_EQ(instance_of(request, {{"COHORT_RANK", "0"}}), 0);
  EXPECT_EQ(instance_of(request, {{"COHORT_RANK", "3"}}), 1);
  EXPECT_EQ(instance_of(request, {{"COHORT_RANK", "9"}}), 1);  // an elastic job that grew
  EXPECT_EQ(instance_of(request, {{"COHORT_RANK", "0"}, {"OMPI_COMM_WORLD_RANK", "2"}}), 1);
  EXPECT_EQ(instance_of(request, {{"COHORT_RANK", "-1"}, {"COHORT_TASK_INDEX", "1"}}), 1);  // a ps
  EXPECT_EQ(instance_of(request, {}), 0);
}

TEST(TaskPrograms, RunUnderTheirInterpreterInTheSourceFolder) {
  const ScratchFolder scratch;
  const AttemptRequest request = two_by_two(scratch);
  std::ofstream(scratch / "code/train.py") << "";
  std::ofstream(scratch / "code/run.sh") << "";
  const std::string code = (scratch / "code").string();
  const auto command = [&](const std::vector<std::string>& program) {
    return task_start(request, program, {}).command;
  };
  EXPECT_THAT(command({"train.py", "--epochs", "3"}),
              ElementsAre("python3", code + "/train.py", "--epochs", "3"));
  EXPECT_THAT(command({"run.sh"}), ElementsAre("bash", code + "/run.sh"));
  EXPECT_THAT(command({"python3", "train.py"}), ElementsAre("python3", "train.py"));
  EXPECT_EQ(task_start(request, {"x"}, {}).folder, scratch / "code");
}

TEST(TaskVariables, AreTheInstancesOwnAndThoseOfTheVirtualEnvironment) {
  const ScratchFolder scratch;
  AttemptRequest request = two_by_two(scratch);
  request.job.runtime = {.kind = jobspec::RuntimeEnvironment::Kind::venv, .place = "/venv"};
  request.resume = true;
  const TaskStart start = task_start(request, {"x"},
                                     {{"PATH", "/usr/bin"},
                                      {"PYTHONPATH", "/mine"},
                                      {"COHORT_RANK", "3"},
                                      {"COHORT_TASK", "{}"},
                                      {"COHORT_OUTPUT", "/launcher"}});
  const Environment& set = start.environment;
  EXPECT_EQ(set.find_value("SM_CURRENT_HOST"), "algo-2");
  EXPECT_EQ(set.find_value("COHORT_OUTPUT"), (scratch / "output").string());
  EXPECT_EQ(set.find_value("SM_MODEL_DIR"), (scratch / "model").string());
  EXPECT_EQ(set.find_value("PATH"), "/venv/bin:/usr/bin");
  EXPECT_EQ(set.find_value("VIRTUAL_ENV"), "/venv");
  EXPECT_EQ(set.find_value("PYTHONPATH"), (scratch / "code").string() + ":/mine");
  EXPECT_EQ(set.find_value("PYTHONUNBUFFERED"), "1");
  EXPECT_EQ(set.find_value("COHORT_RESUME"), "1");
  EXPECT_EQ(set.find_value("COHORT_RANK"), "3");
  EXPECT_FALSE(set.contains("COHORT_TASK"));
}

TEST(TaskVariables, OfALauncherAroundMpirunDoNotReachTheRanks) {
  const ScratchFolder scratch;
  const TaskStart start = task_start(two_by_two(scratch), {"x"},
                                     {{"OMPI_COMM_WORLD_RANK", "1"},
                                      {"OMPI_COMM_WORLD_SIZE", "4"},
                                      {"COHORT_RANK", "0"},
                                      {"COHORT_JOB", "job"},
                                      {"COHORT_STORE", "127.0.0.1:1"},
                                      {"RANK", "0"},
                                      {"WORLD_SIZE", "1"},
                                      {"TF_CONFIG", "{}"}});
  for (const char* name : {"COHORT_RANK", "COHORT_STORE", "RANK", "WORLD_SIZE", "TF_CONFIG"})
    EXPECT_FALSE(start.environment.contains(name)) << name;
  EXPECT_EQ(start.environment.find_value("OMPI_COMM_WORLD_RANK"), "1");
  EXPECT_EQ(start.environment.find_value("COHORT_JOB"), "job");  // leftovers are found by it
}

TEST(WhatAHostLacks, IsSaidAllAtOnce) {
  const ScratchFolder scratch;
  AttemptRequest request = two_by_two(scratch);
  request.job.program = {"train.py"};
  request.job.runtime = {.kind = jobspec::RuntimeEnvironment::Kind::venv, .place = "/no/venv"};
  request.job.spec.inputs = {{"training", "/no/data"}, {"test", "s3://bucket/test"}};
  const Environment environment = Environment::of_this_process();
  const auto missing = missing_here(request, environment, Looked::at_all);
  EXPECT_THAT(missing, ElementsAre(HasSubstr("'/no/venv'"), HasSubstr("'training', '/no/data'"),
                                   HasSubstr("the source folder holds no file 'train.py'")));
  EXPECT_EQ(missing_here(request, environment, Looked::beside_program).size(), 2u);
  std::ofstream(scratch / "code/train.py") << "";
  request.job.runtime = {};
  request.job.spec.inputs = {{"training", "file://" + (scratch / "code").string()}};
  EXPECT_THAT(missing_here(request, environment, Looked::at_all), ElementsAre());
}

TEST(WhatAHostLacks, IsFoundBehindOptionsOfAnInterpreterAndBelowFiles) {
  const ScratchFolder scratch;
  AttemptRequest request = two_by_two(scratch);
  const Environment environment = Environment::of_this_process();
  const auto missing = [&](std::vector<std::string> program) {
    request.job.program = std::move(program);
    return missing_here(request, environment, Looked::at_all);
  };
  EXPECT_THAT(missing({"python3", "-u", "-W", "ignore", "gone.py"}),
              ElementsAre(HasSubstr("no file 'gone.py'")));
  EXPECT_THAT(missing({"sub/train"}), ElementsAre(HasSubstr("no file 'sub/train'")));
  EXPECT_THAT(missing({"python3", "-c", "print(1)", "gone.py"}), ElementsAre());
  EXPECT_THAT(missing({"python3", "-m", "gone", "gone.py"}), ElementsAre());
  std::ofstream(scratch / "file") << "";
  request.job.spec.output = (scratch / "file/results").string();
  EXPECT_THAT(missing({"true"}), ElementsAre(HasSubstr("cannot be written to")));
  request.job.spec.output = (scratch / "new/results").string();
  EXPECT_THAT(missing({"true"}), ElementsAre());
}

}  // namespace
}  // namespace cohort::engine

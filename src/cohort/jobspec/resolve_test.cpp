#include "cohort/jobspec/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/text.h"
#include "cohort/jobspec/instance_type.h"
#include "cohort/jobspec/job_environment.h"
#include "cohort/jobspec/runtime_probe.h"
#include "cohort/jobspec/spec_json.h"

namespace cohort::jobspec {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::uint64_t kGiBytes = 1ull << 30;
const KnownOptions kRunOptions{{"workers", "ps", "layout", "elastic", "chief-name", "strategy",
                                "gpus-per-worker", "threads-per-task", "lease", "quiet"}};

Machine machine(double cores = 4, std::uint64_t gibibytes = 16, int gpus = 0) {
  return {.size = {.cores = cores, .memory_bytes = gibibytes * kGiBytes, .gpus = gpus},
          .hosts = 1,
          .version_at_hand = {},
          .is_shared = false};
}

// `rest` are further fields, as JSON.
ResolvedJob resolved(const std::string& rest, const Machine& on = machine(),
                     const Catalogues& catalogues = shipped_catalogue()) {
  return resolve(spec_from_json(R"({"program": ["./train"], )" + rest + "}", kRunOptions), on,
                 catalogues);
}

std::string refusal(const std::string& rest, const Machine& on = machine()) {
  return message_of<InvalidInput>([&] { resolved(rest, on); });
}

std::string run_line(const ResolvedJob& job) { return join(job.run_words, " "); }

TEST(Resolve, OptionsOfRunAloneStayAsTheyAre) {
  const ResolvedJob job = resolved(R"("workers": 3, "ps": 1, "quiet": true)");
  EXPECT_EQ(run_line(job), "--workers 3 --ps 1 --quiet");
  EXPECT_EQ(job.instances, 3);
  EXPECT_EQ(job.processes, 3);
  EXPECT_EQ(job.instance, (Size{.cores = 1, .memory_bytes = 0, .gpus = 0}));
  EXPECT_EQ(run_line(resolved(R"("quiet": true)")), "--quiet");
  EXPECT_EQ(resolved(R"("workers": 8)").instance.cores, 0.5);
}

TEST(Resolve, ParameterServersStandBesideTheWorkers) {
  const ResolvedJob job = resolved(
      R"("train_instance_count": 2, "distributions": {"parameter_server": {"enabled": true}})");
  EXPECT_EQ(run_line(job),
            "--workers 2 --layout colocated --chief-name master --strategy parameter_server");
  EXPECT_TRUE(job.colocated_servers);
  EXPECT_THAT(run_line(resolved(R"("chief_name": "chief",
                                   "distributions": {"parameter_server": {"enabled": true}})")),
              AllOf(HasSubstr("--chief-name chief"), Not(HasSubstr("master"))));
}

TEST(Resolve, MpiCountsProcessesOfAllHosts) {
  const ResolvedJob job =
      resolved(R"("instance_count": 2, "distributions": {"mpi": {"enabled": true,
      "processes_per_host": 3, "custom_mpi_options": "--NCCL_DEBUG INFO"}})");
  EXPECT_EQ(run_line(job), "--workers 1");
  EXPECT_THAT(job.mpirun_words, ElementsAre("-np", "6", "-x", "NCCL_DEBUG=INFO"));
  EXPECT_THAT(job.notes, ElementsAre(HasSubstr("NCCL_DEBUG")));
  EXPECT_EQ(job.processes, 6);
  EXPECT_EQ(job.instances, 2);
}

TEST(Resolve, MpiHasNoMoreProcessesThanTheInstanceHasGpus) {
  const std::string two =
      R"("distributions": {"mpi": {"enabled": true, "processes_per_host": 2}}, "instance_type": )";
  EXPECT_THAT(refusal(two + R"("TI.GN10X.2XLARGE40.1xV100")"),
              HasSubstr("processes_per_host is 2, but TI.GN10X.2XLARGE40.1xV100 has 1 GPU"));
  EXPECT_EQ(resolved(two + R"("ml.p3.8xlarge")").processes, 2);
  EXPECT_EQ(resolved(two + R"("TI.SMALL2.1core2g")").processes, 2);  // no GPUs: no such limit
}

TEST(Resolve, MirroredAndElastic) {
  EXPECT_EQ(run_line(resolved(R"("instance_count": 3,
                                 "distributions": {"multi_worker_mirrored": {"enabled": true}})")),
            "--workers 3 --strategy multi_worker_mirrored");
  const ResolvedJob job = resolved(R"("elastic": {"min": 2, "max": 8}, "lease": 1)");
  EXPECT_EQ(run_line(job), "--workers 2:8 --elastic --lease 1");
  EXPECT_EQ(job.instances, 8);
  EXPECT_EQ(job.instance.cores, 1);  // by the least: it grows into what is free
  const ResolvedJob same = resolved(R"("workers": "2:8", "elastic": true)");
  EXPECT_EQ(same.spec.elastic, (ElasticRange{.least = 2, .most = 8}));
  EXPECT_EQ(run_line(same), "--workers 2:8 --elastic");
  EXPECT_EQ(run_line(resolved(R"("elastic": true, "instance_count": 4)")),
            "--workers 1:4 --elastic");
}

TEST(Resolve, WhatDoesNotGoTogetherIsRefusedByName) {
  const std::string mpi = R"("distributions": {"mpi": {"enabled": true}}, )";
  const std::string servers = R"("distributions": {"parameter_server": {"enabled": true}}, )";
  EXPECT_THAT(refusal(R"("workers": 2, "instance_count": 3)"),
              HasSubstr("workers = 2 and instance_count = 3 exclude each other"));
  EXPECT_THAT(refusal(mpi + R"("elastic": {"min": 1, "max": 2})"),
              HasSubstr("elastic and the distribution mpi exclude each other"));
  EXPECT_THAT(refusal(servers + R"("elastic": {"min": 1, "max": 2})"),
              HasSubstr("the distribution parameter_server"));
  EXPECT_THAT(refusal(servers + R"("ps": 2)"), HasSubstr("ps and the distribution"));
  EXPECT_THAT(refusal(mpi + R"("layout": "colocated")"), HasSubstr("layout and the distribution"));
  EXPECT_THAT(refusal(R"("workers": 2, "elastic": {"min": 1, "max": 2})"), HasSubstr("workers"));
  EXPECT_THAT(refusal(R"("workers": "2:4")"), HasSubstr("only elastic jobs have"));
  EXPECT_THAT(refusal(R"("workers": "4:2", "elastic": true)"), HasSubstr("no range"));
  EXPECT_THAT(refusal(R"("workers": "many")"), HasSubstr("'many'"));
  EXPECT_THAT(refusal(R"("instance_count": 9, "elastic": {"min": 1, "max": 2})"),
              HasSubstr("instance_count is 9"));
  EXPECT_THAT(refusal(R"("entry_point": "train.py")"), HasSubstr("program and entry_point"));
  EXPECT_THAT(refusal(R"("instance_type": "4x8g", "cores": 2)"),
              HasSubstr("instance_type '4x8g' and cores exclude each other"));
  EXPECT_THAT(refusal(R"("gpus_per_worker": 2)"), HasSubstr("gpus_per_worker is 2"));
  EXPECT_THAT(refusal(R"("output": "s3://bucket/x")"),
              HasSubstr("output is 's3://bucket/x', but must be a folder"));
  EXPECT_THAT(message_of<InvalidInput>([] { resolve({}, machine(), {}); }),
              HasSubstr("names no program"));
}

TEST(Resolve, EntryPointsRunUnderTheirInterpreters) {
  const auto program = [](const std::string& json) {
    return resolve(spec_from_json(json, kRunOptions), machine(), {}).program;
  };
  EXPECT_THAT(program(R"({"entry_point": "train.py", "source_dir": "c",
                          "hyperparameters": {"lr": 0.1, "on": true}})"),
              ElementsAre("python3", "train.py", "--lr", "0.1", "--on", "true"));
  EXPECT_THAT(program(R"({"entry_point": "run.sh"})"), ElementsAre("bash", "run.sh"));
  EXPECT_THAT(program(R"({"entry_point": "train"})"), ElementsAre("./train"));
  for (const char* outside : {"../x.py", "/x.py", "a/../../x.py"})
    EXPECT_THAT(
        message_of<InvalidInput>([&] {
          program(R"({"source_dir": "c", "entry_point": ")" + std::string(outside) + R"("})");
        }),
        HasSubstr("not inside source_dir"));
}

TEST(Resolve, InputsThatNoFolderHoldsAreNoted) {
  EXPECT_THAT(resolved(R"("inputs": {"a": "s3://bucket/x", "b": "file:///d", "c": "/d"})").notes,
              ElementsAre(AllOf(HasSubstr("'a'"), HasSubstr("s3://bucket/x"))));
}

TEST(Resolve, NamesComeFromTheProgram) {
  const auto name = [](const std::string& json) {
    return resolve(spec_from_json(json, kRunOptions), machine(), {}).spec.name;
  };
  EXPECT_EQ(name(R"({"program": ["python3", "-u", "a/my train.py"]})"), "my-train");
  EXPECT_EQ(name(R"({"program": ["/bin/mnist"], "name": "x"})"), "x");
  EXPECT_EQ(name(R"({"entry_point": "train.py"})"), "train");
  EXPECT_EQ(name(R"({"program": ["bash"]})"), "job");
}

TEST(Resources, OwnSizesBeyondTheMachineAreRefusedWithWhatThereIs) {
  const ResolvedJob job = resolved(R"("instance_type": "2x4g", "instance_count": 2)");
  EXPECT_EQ(job.instance, (Size{.cores = 2, .memory_bytes = 4 * kGiBytes, .gpus = 0}));
  EXPECT_THAT(run_line(job), HasSubstr("--threads-per-task 2"));
  EXPECT_THAT(refusal(R"("instance_type": "3x4g", "instance_count": 2)"),
              AllOf(HasSubstr("2 instances of 3x4g with 3 cores, 4 GiB and no GPU each"),
                    HasSubstr("this machine has 4 cores, 16 GiB and no GPU")));
  EXPECT_THAT(refusal(R"("cores": 5)"), HasSubstr("5 cores"));
  EXPECT_THAT(refusal(R"("gpus": 1)"), HasSubstr("1 GPU"));
  EXPECT_THAT(refusal(R"("memory": "17 GiB")"), HasSubstr("17 GiB"));
  const ResolvedJob gpus = resolved(R"("instance_type": "1x1gx2")", machine(4, 16, 2));
  EXPECT_THAT(run_line(gpus), HasSubstr("--gpus-per-worker 2"));
}

TEST(Resources, InstancesOfASharedMachineAreHeldToTheirSize) {
  Machine shared = machine(8, 16, 4);
  shared.is_shared = true;
  EXPECT_EQ(run_line(resolved(R"("quiet": true)", shared)), "--threads-per-task 1 --quiet");
  EXPECT_EQ(run_line(resolved(R"("cores": 2, "gpus": 2)", shared)),
            "--threads-per-task 2 --gpus-per-worker 2");
  EXPECT_EQ(run_line(resolved(R"("threads_per_task": 3)", shared)), "--threads-per-task 3");
  EXPECT_EQ(run_line(resolved(R"("gpus": 2, "elastic": {"min": 1, "max": 8})", shared)),
            "--workers 1:8 --elastic --threads-per-task 1");
}

TEST(Resources, APlatformsNameRunsWithWhatThereIsAndSaysSo) {
  const ResolvedJob job = resolved(R"("instance_type": "ml.p3.2xlarge", "instance_count": 2)");
  EXPECT_EQ(job.instance, (Size{.cores = 2, .memory_bytes = 8 * kGiBytes, .gpus = 0}));
  EXPECT_THAT(
      job.notes,
      ElementsAre(AllOf(HasSubstr("2 instances of ml.p3.2xlarge with 8 cores, 61 GiB and 1 GPU "
                                  "each are more than there is"),
                        HasSubstr("each gets 2 cores, 8 GiB and no GPU"))));
  EXPECT_THAT(refusal(R"("instance_type": "ml.p3.2xlarge", "strict_resources": true)"),
              HasSubstr("more than there is"));
  EXPECT_THAT(resolved(R"("instance_type": "TI.SMALL2.1core2g", "instance_count": 2)").notes,
              IsEmpty());
  EXPECT_THAT(resolved(R"("instance_type": "ti.small2.1CORE2G")").notes, IsEmpty());
}

TEST(Resources, HostsAreMachinesOfTheirOwn) {
  Machine three = machine(4, 16);
  three.hosts = 3;
  EXPECT_EQ(resolved(R"("instance_type": "4x8g", "instance_count": 3)", three).instance.cores, 4);
  EXPECT_THAT(refusal(R"("instance_type": "4x8g", "instance_count": 4)", three),
              HasSubstr("each host has 4 cores"));
}

TEST(Resources, LocalIsAnEqualShare) {
  EXPECT_EQ(resolved(R"("instance_type": "local", "instance_count": 2)").instance,
            (Size{.cores = 2, .memory_bytes = 0, .gpus = 0}));
  EXPECT_EQ(resolved(R"("instance_type": "local_gpu", "instance_count": 2)", machine(4, 16, 4))
                .instance.gpus,
            2);
  EXPECT_THAT(refusal(R"("instance_type": "local_gpu")"), HasSubstr("no GPU"));
}

TEST(Resources, UnknownTypesAreRefusedWithTheNearest) {
  EXPECT_THAT(refusal(R"("instance_type": "ml.p3.2xlrage")"),
              AllOf(HasSubstr("unknown instance_type 'ml.p3.2xlrage'"),
                    HasSubstr("Did you mean ml.p3.2xlarge?")));
  EXPECT_THAT(refusal(R"("instance_type": "quite big")"), HasSubstr("as in 4x8g"));
}

TEST(InstanceType, FormsAreParsed) {
  EXPECT_EQ(parse_own_size("4x8g"), (Size{4, 8 * kGiBytes, 0}));
  EXPECT_EQ(parse_own_size("4x8GiBx1"), (Size{4, 8 * kGiBytes, 1}));
  EXPECT_EQ(parse_own_size("0.5x512m"), (Size{0.5, kGiBytes / 2, 0}));
  for (const char* bad : {"4x8", "x8g", "0x8g", "4x0g", "4x8gx", "4x8gx-1", "4x8gx1x1", "-1x8g",
                          "4x8q", "nanx8g", "", "4", "1e9x8g", "4 x8g"})
    EXPECT_EQ(parse_own_size(bad), std::nullopt) << bad;
  EXPECT_EQ(parse_ti_name("TI.SMALL2.1core2g"), (Size{1, 2 * kGiBytes, 0}));
  EXPECT_EQ(parse_ti_name("TI.GN10X.2XLARGE40.1xV100"), (Size{8, 40 * kGiBytes, 1}));
  EXPECT_EQ(parse_ti_name("TI.GN7.5XLARGE80.4xT4"), (Size{20, 80 * kGiBytes, 4}));
  for (const char* bad :
       {"TI", "TI.SMALL2", "TI.SMALL2.core2g", "TI.HUGE2.1core2g", "TI.SMALL2.xV100",
        "TI.SMALL.1core2g", "ML.SMALL2.1core2g", "TI.SMALL2.0xV100", "..."})
    EXPECT_EQ(parse_ti_name(bad), std::nullopt) << bad;
  EXPECT_EQ(parse_memory("1.5 GiB"), kGiBytes * 3 / 2);
  EXPECT_EQ(parse_memory("4096"), 4096u);
  EXPECT_EQ(parse_memory("-1"), std::nullopt);
  for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{1025}, 3 * kGiBytes})
    EXPECT_EQ(parse_memory(memory_text(bytes)), bytes);
}

TEST(Catalogue, FilesAddToTheShippedOne) {
  const ScratchFolder folder;
  std::ofstream(folder / "catalogue.toml")
      << "[instance_types]\n'big.one' = '64x512gx8'\n'ml.m5.large' = '1x1g'\n"
         "[[environments]]\nframework = 'TensorFlow'\nversion = '1.14.0'\npython = 'py37'\n"
         "venv = '/opt/tf'\n[[environments]]\nframework = 'pytorch'\nimage = 'torch:2'\n";
  const Catalogues all = read_catalogues(folder.path());
  EXPECT_EQ(all.instance_types.at("big.one").gpus, 8);
  EXPECT_EQ(all.instance_types.at("ml.m5.large").cores, 1);
  EXPECT_EQ(all.instance_types.at("ml.p3.2xlarge").gpus, 1);
  for (const auto& [name, size] : shipped_catalogue().instance_types) {
    EXPECT_EQ(parse_ti_name(name).value_or(size), size) << name;
  }

  const ResolvedJob venv =
      resolved(R"("framework": "tensorflow", "framework_version": "1.14.0", "py_version": "py3")",
               machine(), all);
  EXPECT_EQ(venv.runtime.kind, RuntimeEnvironment::Kind::venv);
  EXPECT_EQ(venv.runtime.place, "/opt/tf");
  EXPECT_THAT(venv.notes, IsEmpty());
  EXPECT_EQ(resolved(R"("framework": "torch")", machine(), all).runtime.place, "torch:2");
  EXPECT_EQ(
      resolved(R"("framework": "tensorflow", "py_version": "py2")", machine(), all).runtime.kind,
      RuntimeEnvironment::Kind::at_hand);
}

TEST(Catalogue, MistakesAreRefusedByLine) {
  const auto refused = [](const char* text) {
    return message_of<InvalidInput>([text] { parse_catalogue(text, "c.toml"); });
  };
  EXPECT_THAT(refused("[instance_types]\na = '4x'\n"), HasSubstr("c.toml line 2"));
  EXPECT_THAT(refused("[instance_type]\n"), HasSubstr("Did you mean 'instance_types'?"));
  EXPECT_THAT(refused("[[environments]]\nframework = 'a'\n"), HasSubstr("venv and image"));
  ::setenv("COHORT_CATALOGUE", "/nowhere.toml", 1);
  EXPECT_THAT(message_of<InvalidInput>([] { read_catalogues({}); }), HasSubstr("/nowhere.toml"));
  ::unsetenv("COHORT_CATALOGUE");
}

TEST(Runtime, AnotherVersionAtHandIsSaid) {
  Machine at = machine();
  at.version_at_hand = [](std::string_view package) -> std::string {
    return package == "tensorflow" ? "2.15.0" : package == "python" ? "3.11.2" : "";
  };
  const auto notes = [&at](const std::string& fields) { return resolved(fields, at, {}).notes; };
  EXPECT_THAT(
      notes(R"("framework": "tensorflow", "framework_version": "1.14.0", "py_version": "py3")"),
      ElementsAre("tensorflow 1.14.0 was asked for; the one at hand is 2.15.0"));
  EXPECT_THAT(notes(R"("framework": "tensorflow", "framework_version": "2.15")"), IsEmpty());
  EXPECT_THAT(notes(R"("framework": "pytorch", "framework_version": "2.1")"),
              ElementsAre(HasSubstr("has no pytorch")));
  EXPECT_THAT(notes(R"("py_version": "py37")"),
              ElementsAre("Python 3.7 was asked for; the one at hand is 3.11.2"));
  EXPECT_THAT(notes(R"("py_version": "py311")"), IsEmpty());
}

TEST(Runtime, TheVirtualEnvironmentOfTheSubmitterIsTakenUnlessACatalogueNamesOne) {
  const std::string fields = R"("framework": "tensorflow", "framework_version": "1.14.0",
                                "env": {"VIRTUAL_ENV": "/envs/ann"})";
  Machine at = machine();
  at.version_in_venv = [](std::string_view, const std::string& venv) { return venv + "/2.15.1"; };
  const ResolvedJob own = resolved(fields, at, {});
  EXPECT_EQ(own.runtime.kind, RuntimeEnvironment::Kind::venv);
  EXPECT_EQ(own.runtime.place, "/envs/ann");
  EXPECT_THAT(own.notes, ElementsAre(HasSubstr("the one at hand is /envs/ann/2.15.1")));
  EXPECT_EQ(resolved(R"("env": {"VIRTUAL_ENV": "/v"})", machine(), {}).runtime.place, "/v");
  Catalogues site;
  site.environments.push_back({.framework = "tensorflow", .place = "/opt/tf"});
  EXPECT_EQ(resolved(fields, at, site).runtime.place, "/opt/tf");
}

TEST(Runtime, ThePythonAtHandIsAsked) {
  EXPECT_THAT(version_at_hand("python"), ::testing::StartsWith("3."));
  EXPECT_EQ(version_at_hand("no-such-package"), "");
  EXPECT_EQ(version_in_venv("python", "/no/such/folder"), "");
}

TEST(JobEnvironment, TellsChannelsFoldersAndHyperparameters) {
  ResolvedJob job = resolved(R"("instance_count": 2, "env": {"A": "b", "SM_MODEL_DIR": "/mine"},
      "inputs": {"train-x": "file:///d/train", "test": "/d/test"},
      "hyperparameters": {"lr": 0.1, "names": ["a", "b"]})");
  const Folders folders{
      .output = "/out", .model = "/model", .source = "/src", .channels = {{"test", "/mnt/test"}}};
  const Variables all = task_environment(job, folders, 1);
  const Variables expected = {{"COHORT_CHANNEL_TRAIN_X", "/d/train"},
                              {"SM_CHANNEL_TRAIN_X", "/d/train"},
                              {"TM_CHANNEL_TRAIN_X", "/d/train"},
                              {"SM_CHANNEL_TEST", "/mnt/test"},
                              {"SM_CHANNELS", R"(["test","train-x"])"},
                              {"SM_HPS", R"({"lr":0.1,"names":["a","b"]})"},
                              {"SM_HP_LR", "0.1"},
                              {"SM_HP_NAMES", R"(["a","b"])"},
                              {"SM_USER_ARGS", R"j(["--lr","0.1","--names","[\"a\",\"b\"]"])j"},
                              {"SM_HOSTS", R"(["algo-1","algo-2"])"},
                              {"SM_CURRENT_HOST", "algo-2"},
                              {"SM_NUM_GPUS", "0"},
                              {"TM_NUM_GPUS", "0"},
                              {"SM_NUM_CPUS", "1"},
                              {"COHORT_OUTPUT", "/out"},
                              {"SM_OUTPUT_DATA_DIR", "/out"},
                              {"TM_MODEL_DIR", "/model"},
                              {"SM_MODEL_DIR", "/mine"},  // the job's own wins
                              {"SM_MODULE_DIR", "/src"},
                              {"A", "b"}};
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(all.contains(name)) << name;
    EXPECT_EQ(all.at(name), value) << name;
  }
  EXPECT_FALSE(job_environment(job, {}).contains("COHORT_OUTPUT"));
  EXPECT_FALSE(job_environment(job, {}).contains("SM_CURRENT_HOST"));
}

}  // namespace
}  // namespace cohort::jobspec

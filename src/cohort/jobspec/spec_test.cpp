#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/jobspec/spec_json.h"
#include "cohort/jobspec/spec_toml.h"

namespace cohort::jobspec {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using namespace std::chrono_literals;

const KnownOptions kKnown{{"workers", "ps", "chief-name", "quiet", "hosts", "max-restarts", "env",
                           "elastic", "output", "layout"}};

JobSpec from_json(const std::string& text) { return spec_from_json(text, kKnown); }
JobSpec from_toml(const std::string& text) { return spec_from_toml(text, "job.toml", kKnown); }

std::string refusal_of_json(const std::string& text) {
  return message_of<InvalidInput>([&] { from_json(text); });
}
std::string refusal_of_toml(const std::string& text) {
  return message_of<InvalidInput>([&] { from_toml(text); });
}

// Every field has another value than its default.
JobSpec full_spec() {
  JobSpec spec;
  spec.name = "mnist-1";
  spec.engine = "slurm";
  spec.engine_options = {"--account=vision", "--comment=a \"b\""};
  spec.program = {"./train", "--quote", "a \"b\" 'c' \\ \n\t\x7f", "", "1e5"};
  spec.entry_point = "train.py";
  spec.source_dir = "path/code";
  spec.source = std::string(64, 'a');
  spec.framework = "tensorflow";
  spec.framework_version = "1.14.0";
  spec.py_version = "py3";
  spec.image = "registry/tensorflow:1.14";
  spec.hyperparameters = {{"lr", "0.1"},         {"batch-size", "64"},
                          {"amp", "true"},       {"name", R"("a b")"},
                          {"layers", "[64,10]"}, {"schedule", R"({"warm.up":5,"at":[1,2.5]})"},
                          {"_x.y", "-3"},        {"none", "[]"},
                          {"empty", R"("")"},    {"big", "123456789012345678"}};
  spec.inputs = {{"training", "/data/a b"}, {"test", "file:///data/test"}};
  spec.output = "/results";
  spec.role = "role/of:me";
  spec.instance_count = 3;
  spec.instance_type = "TI.SMALL2.1core2g";
  spec.cores = 1.5;
  spec.memory_bytes = 1536ull << 20;
  spec.gpus = 0;
  spec.strict_resources = true;
  spec.distribution = Distribution::mpi;
  spec.mpi = {.processes_per_host = 4, .custom_options = "--NCCL_DEBUG INFO"};
  spec.elastic = ElasticRange{.least = 2, .most = 8};
  spec.env = {{"A", "1"}, {"B_C", "x=y \"z\""}};
  spec.engine_options = {"--account=vision"};
  spec.queue = "night";
  spec.priority = -5;
  spec.max_run = 2h + 30min;
  spec.restarts = 0;
  spec.metric_definitions = {{.name = "loss", .regex = R"(loss=([0-9.]+))"}};
  spec.tags = {{"team", "vision"}, {"with space", ""}};
  spec.run_options = {{"workers", R"("2:8")"}, {"quiet", "true"}, {"hosts", R"(["a:1","b"])"}};
  return spec;
}

TEST(JobDescription, EveryFieldComesBackFromJsonAndToml) {
  const JobSpec spec = full_spec();
  EXPECT_EQ(from_json(to_json(spec)), spec);
  EXPECT_EQ(from_toml(to_toml(spec)), spec) << to_toml(spec);
  EXPECT_EQ(from_json(to_json(from_toml(to_toml(spec)))), spec);
  EXPECT_EQ(from_json("{}"), JobSpec{});
  EXPECT_EQ(to_json(JobSpec{}), "{}");
  EXPECT_EQ(to_toml(JobSpec{}), "");
}

TEST(JobDescription, EveryFieldIsNamedOnceAndWritten) {
  const auto json = nlohmann::json::parse(to_json(full_spec()));
  for (const std::string& name : field_names()) EXPECT_TRUE(json.contains(name)) << name;
  for (const auto& [alias, name] : field_aliases()) {
    EXPECT_THAT(field_names(), ::testing::Contains(name)) << alias;
    EXPECT_THAT(field_names(), ::testing::Not(::testing::Contains(alias)));
  }
}

// Each field alone, so that none depends on another one being there.
TEST(JobDescription, EveryFieldComesBackAlone) {
  const auto whole = nlohmann::ordered_json::parse(to_json(full_spec()));
  for (const auto& [key, value] : whole.items()) {
    const JobSpec one = from_json(nlohmann::ordered_json{{key, value}}.dump());
    EXPECT_NE(one, JobSpec{}) << key;
    EXPECT_EQ(from_toml(to_toml(one)), one) << to_toml(one);
    EXPECT_EQ(from_json(to_json(one)), one) << key;
  }
}

TEST(JobDescription, ResolvedJobsComeBackFromJson) {
  ResolvedJob job{
      .spec = full_spec(),
      .instances = 3,
      .instance = {.cores = 0.5, .memory_bytes = 1ull << 40, .gpus = 2},
      .processes = 12,
      .colocated_servers = true,
      .run_words = {"--workers", "1"},
      .program = {"python3", "a b"},
      .mpirun_words = {"-np", "12"},
      .env = {{"A", "b"}},
      .runtime = {.kind = RuntimeEnvironment::Kind::venv, .place = "/v", .version = "2"},
      .notes = {"a note"}};
  const ResolvedJob again = resolved_from_json(to_json(job));
  EXPECT_EQ(again.spec, job.spec);
  EXPECT_EQ(again.instance, job.instance);
  EXPECT_EQ(again.runtime.kind, job.runtime.kind);
  EXPECT_EQ(to_json(again), to_json(job));
  EXPECT_THAT(message_of<InvalidInput>([] { resolved_from_json(R"({"spec": {}})"); }),
              HasSubstr("no resolved job"));
}

TEST(JobDescription, OtherSpellingsMeanTheSame) {
  EXPECT_EQ(from_json(R"({"train_instance_count": 2, "train_instance_type": "local",
                          "distribution": {"mpi": {"enabled": true}}, "train_max_run": 60})"),
            from_toml("instance-count = 2\ninstance_type = 'local'\nmax-run = '1m'\n"
                      "[distributions.mpi]\nenabled = true\nprocesses_per_host = 1\n"));
  EXPECT_EQ(from_json(R"({"inputs": "/data"})").inputs,
            (std::map<std::string, std::string>{{"training", "/data"}}));
  EXPECT_EQ(from_json(R"({"tags": [{"Key": "a", "Value": "b"}]})").tags.at("a"), "b");
  EXPECT_EQ(from_json(R"({"metric_definitions": [{"Name": "l", "Regex": "r"}]})"),
            from_json(R"({"metric_definitions": [{"name": "l", "regex": "r"}]})"));
  EXPECT_EQ(from_toml("env = ['A=b=c']"), from_toml("[env]\nA = 'b=c'\n"));
  EXPECT_EQ(from_toml("max-restarts = '2'").restarts, 2);
  EXPECT_EQ(from_json(R"({"instance_count": 2, "train_instance_count": 2})").instance_count, 2);
}

TEST(JobDescription, TwoSpellingsWithDifferentValuesAreRefusedByName) {
  EXPECT_THAT(refusal_of_json(R"({"instance_count": 2, "train_instance_count": 3})"),
              HasSubstr("'instance_count' and 'train_instance_count' mean the same"));
  EXPECT_THAT(refusal_of_toml("max_run = 1\nmax-run = 2\n"),
              HasSubstr("job.toml line 2: 'max_run' and 'max-run'"));
}

TEST(JobDescription, UnknownKeysAreRefusedWithPlaceAndNearestOne) {
  EXPECT_THAT(refusal_of_toml("workers = 2\nwrokers = 3\n"),
              AllOf(HasSubstr("job.toml line 2: unknown key 'wrokers'"),
                    HasSubstr("Did you mean 'workers'?")));
  EXPECT_THAT(refusal_of_toml("instnace-count = 3\n"), HasSubstr("Did you mean 'instance_count'?"));
  EXPECT_THAT(refusal_of_toml("[distributions.mpi]\nenabled = true\n\nproceses_per_host = 2\n"),
              AllOf(HasSubstr("job.toml line 4: unknown key 'distributions.mpi.proceses_per_host'"),
                    HasSubstr("Did you mean 'processes_per_host'?")));
  EXPECT_THAT(refusal_of_json(R"({"distributions": {"horovd": {}}})"),
              AllOf(HasSubstr("unknown key 'distributions.horovd'"),
                    HasSubstr("There are: parameter_server, mpi, multi_worker_mirrored.")));
  EXPECT_THAT(refusal_of_json(R"({"elastic": {"mni": 1, "max": 2}})"),
              HasSubstr("unknown key 'elastic.mni'"));
  EXPECT_THAT(refusal_of_json(R"({"chif_name": "x"})"), HasSubstr("Did you mean 'chief_name'?"));
}

TEST(JobDescription, WrongValuesAreRefusedWithKeyValueAndRange) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {R"({"priority": 2000})", "priority is 2000, but must be a whole number from -1000 to 1000"},
      {R"({"instance_count": 0})", "instance_count is 0, but must be a whole number from 1"},
      {R"({"instance_count": 1.5})", "instance_count is 1.5"},
      {R"({"instance_count": "two"})", "instance_count is 'two'"},
      {R"({"cores": 0})", "cores is 0, but must be a number above 0"},
      {R"({"memory": "lots"})", "memory is 'lots'"},
      {R"({"memory": "4"})", "memory is '4', but must be an amount of at least 1 MiB"},
      {R"({"max_run": "2x"})", "max_run is '2x'"},
      {R"({"max_run": -1})", "max_run is -1"},
      {R"({"name": "a/../b"})", "name is 'a/../b'"},
      {R"({"name": 3})", "name is 3, but must be text"},
      {R"({"engine": "lokal"})", "Did you mean local?"},
      {R"({"program": "python3 train.py"})", "holds spaces"},
      {R"({"program": []})", "names no program"},
      {R"({"source": "abc"})", "64 hexadecimal digits"},
      {R"({"strict_resources": 1})", "must be true or false"},
      {R"({"hyperparameters": {"lr": null}})", "hyperparameters.lr is null"},
      {R"({"hyperparameters": {"-lr": 1}})", "name"},
      {R"({"hyperparameters": {"a b": 1}})", "name"},
      {R"({"hyperparameters": [1]})", "hyperparameters is [1], but must be a table"},
      {R"({"inputs": {"a b": "/x"}})", "inputs.a b"},
      {R"({"inputs": {"a": ""}})", "inputs.a is '', but must not be empty"},
      {R"({"elastic": {"min": 4, "max": 2}})", "at least its min"},
      {R"({"distributions": {"mpi": {"enabled": true, "processes_per_host": 0}}})",
       "distributions.mpi.processes_per_host is 0"},
      {R"({"distributions": {"mpi": {"enabled": true}, "parameter_server": {"enabled": true}}})",
       "enables both mpi and parameter_server"},
      {R"({"env": ["NOVALUE"]})", "NAME=VALUE"},
      {R"({"env": {"A": true}})", "neither text nor a number"},
      {R"({"metric_definitions": [{"name": "a"}]})", "must have name and regex"},
      {R"({"workers": {"a": [1]}})", "neither text nor a number"},
      {R"({"workers": null})", "neither text nor a number"},
  };
  for (const auto& [text, message] : wrong)
    EXPECT_THAT(refusal_of_json(text), HasSubstr(message)) << text;
  EXPECT_THAT(refusal_of_toml("workers = 2\n[hyperparameters]\nlr = nan\n"),
              HasSubstr("job.toml line 3: hyperparameters.lr"));
  EXPECT_THAT(refusal_of_toml("\npriority = 1001\n"), HasSubstr("job.toml line 2: priority"));
}

TEST(JobDescription, OneEnabledDistributionIsTaken) {
  const JobSpec spec = from_json(
      R"({"distributions": {"mpi": {"enabled": false}, "parameter_server": {"enabled": true}}})");
  EXPECT_EQ(spec.distribution, Distribution::parameter_server);
  EXPECT_EQ(from_json(R"({"distributions": {"mpi": {}}})").distribution, Distribution::none);
}

TEST(JobDescription, HyperparametersKeepTheirOrder) {
  EXPECT_THAT(from_toml("[hyperparameters]\nz = 1\na = 2\nm = 3\n").hyperparameters,
              ElementsAre(Pair("z", "1"), Pair("a", "2"), Pair("m", "3")));
}

TEST(JobDescription, SettingsChangeOneField) {
  JobSpec spec = from_toml("instance_count = 2\n[hyperparameters]\nlr = 0.1\nlayers = 2\n");
  spec = with_setting(spec, "hyperparameters.lr=0.5", kKnown);
  spec = with_setting(spec, "train_instance_count=4", kKnown);
  spec = with_setting(spec, "instance-type=4x8g", kKnown);
  spec = with_setting(spec, "tags.team=a b", kKnown);
  EXPECT_THAT(spec.hyperparameters, ElementsAre(Pair("lr", "0.5"), Pair("layers", "2")));
  EXPECT_EQ(spec.instance_count, 4);
  EXPECT_EQ(spec.instance_type, "4x8g");
  EXPECT_EQ(spec.tags.at("team"), "a b");
  EXPECT_THAT(message_of<InvalidInput>([&] { with_setting(spec, "priority=high", kKnown); }),
              HasSubstr("--set: priority is 'high'"));
  EXPECT_THAT(message_of<InvalidInput>([&] { with_setting(spec, "priority", kKnown); }),
              HasSubstr("KEY=VALUE"));
}

TEST(JobDescription, PathsAreAnchoredInTheClientsFolder) {
  JobSpec spec = from_json(
      R"({"program": ["./train", "./x"], "inputs": {"a": "d", "b": "s3://x/y", "c": "/abs"},
          "output": "../out"})");
  anchor_paths(spec, "/home-of/me");
  EXPECT_THAT(spec.program, ElementsAre("/home-of/me/train", "./x"));
  EXPECT_EQ(spec.inputs.at("a"), "/home-of/me/d");
  EXPECT_EQ(spec.inputs.at("b"), "s3://x/y");
  EXPECT_EQ(spec.inputs.at("c"), "/abs");
  EXPECT_EQ(spec.output, "/home-of/out");
  JobSpec image = from_json(
      R"({"program": "./train", "engine": "kubernetes", "inputs": "d", "source_dir": "code"})");
  anchor_paths(image, "/m");
  EXPECT_THAT(image.program, ElementsAre("./train"));
  EXPECT_EQ(image.source_dir, "/m/code");
  JobSpec packed = from_json(R"({"entry_point": "train.py", "source_dir": "code"})");
  anchor_paths(packed, "/m");
  EXPECT_EQ(packed.entry_point, "train.py");
  EXPECT_EQ(packed.source_dir, "/m/code");
}

TEST(JobDescription, BadTextIsRefusedInWords) {
  for (const char* text : {"", "[]", "null", "{", R"({"a":)", "{\"name\": \"\xff\"}", "3", "{}x"})
    EXPECT_FALSE(refusal_of_json(text).empty()) << text;
  EXPECT_THAT(refusal_of_json(R"({"name": "a", "name": "b"})"), HasSubstr("'name' is given twice"));
  EXPECT_THAT(refusal_of_json(R"({"env": {"A": "x\u0000y"}})"),
              HasSubstr("a zero byte behind 'x'"));
  EXPECT_THAT(refusal_of_toml(R"(program = ["tr\u0000ue"])"), HasSubstr("a zero byte behind 'tr'"));
  EXPECT_THAT(refusal_of_json("{\"hyperparameters\": {\"a\": " + std::string(100'000, '[') + "}"),
              HasSubstr("more than 16 deep"));
  EXPECT_THAT(refusal_of_json(std::string((1u << 20) + 1, ' ')), HasSubstr("the most allowed"));
  EXPECT_THAT(refusal_of_toml("workers = [2\nps = 1\n"), HasSubstr("job.toml line 2"));
  for (const char* text : {"[=]", "[.]", "a = [}", "a = {[]}", "[[]", "=", "a.=1", "[a", "a = '"})
    EXPECT_THAT(refusal_of_toml(text), HasSubstr("job.toml")) << text;
  EXPECT_THAT(refusal_of_json("{\"\x1b[31m\": 1}"), ::testing::Not(HasSubstr("\x1b")));
}

// Broken descriptions end in InvalidInput or in a value that can be written again; never otherwise.
TEST(JobDescription, DamagedTextsNeverDoHarm) {
  std::mt19937 random(1);
  const std::string json = to_json(full_spec());
  const std::string toml = to_toml(full_spec());
  const auto pick = [&random](std::size_t below) {
    return std::uniform_int_distribution<std::size_t>(0, below - 1)(random);
  };
  int read = 0;
  for (int i = 0; i < 2000; ++i) {
    const bool is_json = i % 2 == 0;
    std::string text = is_json ? json : toml;
    for (std::size_t edits = 1 + pick(3); edits > 0; --edits) {
      const std::size_t at = pick(text.size());
      constexpr std::string_view kBytes = "{}[],:\"'=.\n0-9e\\u\xff\x00xX #";
      if (pick(2) == 0)
        text[at] = kBytes[pick(kBytes.size())];
      else
        text.erase(at, 1 + pick(5));
    }
    try {
      const JobSpec spec = is_json ? from_json(text) : from_toml(text);
      EXPECT_EQ(from_json(to_json(spec)), spec) << text;
      ++read;
    } catch (const InvalidInput& error) {
      EXPECT_FALSE(error.message().empty());
    }
  }
  EXPECT_GT(read, 20);
}

TEST(JobFile, IsReadFromDisk) {
  const ScratchFolder folder;
  std::ofstream(folder / "job.toml") << "program = \"true\"\nworkers = 2\n";
  EXPECT_THAT(read_job_file(folder / "job.toml", kKnown).program, ElementsAre("true"));
  EXPECT_THAT(message_of<InvalidInput>([&] { read_job_file(folder / "gone.toml", kKnown); }),
              HasSubstr("gone.toml' not found"));
  EXPECT_THAT(message_of<InvalidInput>([&] { read_job_file(folder.path(), kKnown); }),
              HasSubstr("is a folder"));
  EXPECT_THAT(message_of<InvalidInput>([&] { read_job_file("/dev/zero", kKnown); }),
              HasSubstr("the most allowed"));
}

}  // namespace
}  // namespace cohort::jobspec

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The description of a job: the same fields in a job file (TOML), on the command line of `cohort
// submit`, in the Python SDK and in the HTTP API (JSON). Values; nothing here touches the machine.
namespace cohort::jobspec {

// How the processes of a job are related. `none`: as the options of `cohort run` say.
enum class Distribution { none, parameter_server, mpi, multi_worker_mirrored };

std::string_view name_of(Distribution distribution);

struct MpiOptions {
  int processes_per_host = 1;
  std::string custom_options;  // as written: '--NCCL_DEBUG INFO'

  bool operator==(const MpiOptions&) const = default;
};

struct ElasticRange {
  int least = 1;
  int most = 1;

  bool operator==(const ElasticRange&) const = default;
};

struct MetricDefinition {
  std::string name;
  std::string regex;  // RE2; its first group is the number

  bool operator==(const MetricDefinition&) const = default;
};

// A name and the JSON text of its value, in the order in which they were written.
using NamedJson = std::vector<std::pair<std::string, std::string>>;

struct JobSpec {
  std::string name;                         // "": made from the program
  std::string engine = "local";             // local, hosts, slurm, kubernetes
  std::vector<std::string> engine_options;  // words for its scheduler: "--account=vision"
  std::vector<std::string> program;         // program and its arguments; or:
  std::string entry_point;                  // a file of source_dir; a .py runs under Python
  std::string source_dir;  // a folder of the client; it is packed, and `source` replaces it
  std::string source;      // SHA-256 of the packed source_dir, in hex; "": none
  std::string framework;   // tensorflow, pytorch, cohort; "": any
  std::string framework_version;
  std::string py_version;
  std::string image;
  NamedJson hyperparameters;
  std::map<std::string, std::string> inputs;  // channel: path or URI
  std::string output;                         // "": the job's own folder in the run store
  std::string role;                           // accepted and kept; nothing depends on it

  std::optional<int> instance_count;
  std::string instance_type;  // instance_type.h; "": as cores, memory and gpus say
  std::optional<double> cores;
  std::optional<std::uint64_t> memory_bytes;
  std::optional<int> gpus;
  bool strict_resources = false;

  Distribution distribution = Distribution::none;
  MpiOptions mpi;
  std::optional<ElasticRange> elastic;

  std::map<std::string, std::string> env;
  std::string queue = "default";
  int priority = 0;                 // -1000 to 1000; higher first
  std::chrono::seconds max_run{0};  // 0: no limit
  std::optional<int> restarts;      // of the whole group (--max-restarts)
  std::vector<MetricDefinition> metric_definitions;
  std::map<std::string, std::string> tags;

  // Other keys of a job file: options of `cohort run` by their long names ("workers", "ps").
  NamedJson run_options;

  bool operator==(const JobSpec&) const = default;
};

}  // namespace cohort::jobspec

#include "cohort/jobspec/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/jobspec/job_environment.h"
#include "cohort/jobspec/resources.h"
#include "cohort/jobspec/words.h"

namespace cohort::jobspec {
namespace {

const std::string* find_option(const JobSpec& spec, std::string_view name) {
  for (const auto& [option, json] : spec.run_options)
    if (option == name) return &json;
  return nullptr;
}

// Takes the option out of the description; its value as one word. "": it is not there.
std::string take_option(JobSpec& spec, std::string_view name) {
  const std::string* json = find_option(spec, name);
  if (json == nullptr) return "";
  const auto value = nlohmann::json::parse(*json);
  std::string word = value.is_string() ? value.get<std::string>() : value.dump();
  std::erase_if(spec.run_options, [name](const auto& option) { return option.first == name; });
  return word;
}

[[noreturn]] void refuse_both(const std::string& one, const std::string& other,
                              const std::string& advice) {
  throw InvalidInput(fmt::format("{} and {} exclude each other", one, other), {.advice = advice});
}

int worker_count(std::string_view text, const std::string& whole) {
  const auto number = parse_unsigned(text);
  if (!number || *number < 1 || *number > 1'000'000)
    throw InvalidInput(
        fmt::format("workers (--workers) is '{}', but must be a number from 1 on, or LEAST:MOST "
                    "of an elastic job",
                    escape_controls(whole)));
  return static_cast<int>(*number);
}

// `elastic = true` and `workers = "2:8"`, the options of `cohort run`, become the range, `workers`
// alone the number of instances.
void take_worker_options(JobSpec& spec) {
  const bool is_elastic = take_option(spec, "elastic") == "true";
  const std::string workers = take_option(spec, "workers");
  if (workers.empty()) {
    if (is_elastic && !spec.elastic)
      spec.elastic = ElasticRange{.least = 1, .most = spec.instance_count.value_or(1)};
    return;
  }
  if (spec.instance_count)
    refuse_both(fmt::format("workers = {}", workers),
                fmt::format("instance_count = {}", *spec.instance_count), "Leave one of them out.");
  if (spec.elastic)
    refuse_both(fmt::format("workers = {}", workers), "elastic = {min, max}",
                "The range says how many workers there are: leave workers out.");
  const auto colon = workers.find(':');
  const int most = worker_count(
      std::string_view(workers).substr(colon == std::string::npos ? 0 : colon + 1), workers);
  if (colon != std::string::npos && !is_elastic)
    throw InvalidInput(
        fmt::format("workers = {} is a range, which only elastic jobs have", workers),
        {.advice = "Add elastic = true, or give one number."});
  if (is_elastic) {
    const int least = colon == std::string::npos
                          ? 1
                          : worker_count(std::string_view(workers).substr(0, colon), workers);
    if (least > most)
      throw InvalidInput(fmt::format("workers = {} is no range", workers),
                         {.advice = "Give LEAST:MOST, as in 2:8."});
    spec.elastic = ElasticRange{.least = least, .most = most};
  } else {
    spec.instance_count = most;  // a worker that is asked for as an option is an instance
  }
}

// GPUs of an instance by the option of `cohort run`. More than a machine has would never be free.
int gpus_option(const JobSpec& spec, const Machine& machine) {
  const std::string* json = find_option(spec, "gpus-per-worker");
  if (json == nullptr) return 0;
  const auto gpus = nlohmann::json::parse(*json);
  if (!gpus.is_number_unsigned()) return 0;  // the command line says what is wrong with it
  if (gpus > machine.size.gpus)
    throw InvalidInput(fmt::format("gpus_per_worker is {}, but there {} {}", gpus.dump(),
                                   machine.size.gpus == 1 ? "is" : "are", machine.size.gpus),
                       {.advice = "Ask for fewer GPUs."});
  return gpus.get<int>();
}

void check_conflicts(const JobSpec& spec) {
  if (!spec.program.empty() && !spec.entry_point.empty())
    refuse_both("program", "entry_point", "Leave one of them out.");
  if (spec.program.empty() && spec.entry_point.empty())
    throw InvalidInput("the description names no program",
                       {.advice = "Give program, or entry_point (with source_dir)."});
  if (spec.output.find("://") != std::string::npos)
    throw InvalidInput(
        fmt::format("output is '{}', but must be a folder", escape_controls(spec.output)),
        {.advice = "Give one that the job's machine can reach, and copy from it afterwards."});
  const std::string distribution(name_of(spec.distribution));
  if (spec.elastic && (spec.distribution == Distribution::mpi ||
                       spec.distribution == Distribution::parameter_server))
    refuse_both("elastic", "the distribution " + distribution,
                "Use multi_worker_mirrored, or leave elastic out.");
  if (spec.elastic && spec.instance_count &&
      (*spec.instance_count < spec.elastic->least || *spec.instance_count > spec.elastic->most))
    throw InvalidInput(fmt::format("instance_count is {}, outside of elastic, from {} to {}",
                                   *spec.instance_count, spec.elastic->least, spec.elastic->most),
                       {.advice = "The range is enough: leave instance_count out."});
  // What a distribution decides.
  const bool has_servers = spec.distribution == Distribution::parameter_server;
  const bool is_mpi = spec.distribution == Distribution::mpi;
  for (const char* option : {"ps", "layout", "coordinator", "evaluator", "chief-name", "horovod"})
    if (const bool is_decided =
            is_mpi || (has_servers &&
                       (std::string_view(option) == "ps" || std::string_view(option) == "layout" ||
                        std::string_view(option) == "coordinator"));
        is_decided && find_option(spec, option) != nullptr)
      refuse_both(option, "the distribution " + distribution,
                  "The distribution decides it: leave it out.");
}

bool leaves_source(const std::filesystem::path& path) {
  return path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end();
}

Words program_words(const JobSpec& spec) {
  Words words = spec.program;
  if (words.empty()) {
    const std::filesystem::path entry = spec.entry_point;
    const bool in_source = !spec.source_dir.empty() || !spec.source.empty();
    if (in_source && leaves_source(entry))
      throw InvalidInput(fmt::format("entry_point '{}' is not inside source_dir",
                                     escape_controls(spec.entry_point)),
                         {.advice = "Name a file relative to source_dir."});
    if (entry.extension() == ".py")
      words = {"python3", spec.entry_point};
    else if (entry.extension() == ".sh")
      words = {"bash", spec.entry_point};
    else
      words = {entry.has_parent_path() ? spec.entry_point : "./" + spec.entry_point};
  }
  const Words hyperparameters = hyperparameter_words(spec.hyperparameters);
  words.insert(words.end(), hyperparameters.begin(), hyperparameters.end());
  return words;
}

// "train.py" -> "train": the part of the command that a person would call the job by.
std::string name_from(const JobSpec& spec) {
  std::string word = spec.entry_point;
  for (const std::string& candidate : spec.program) {
    if (!word.empty()) break;
    const std::string stem = std::filesystem::path(candidate).stem().string();
    const bool is_interpreter =
        stem.starts_with("python") || stem == "bash" || stem == "sh" || candidate.starts_with('-');
    if (!is_interpreter) word = candidate;
  }
  std::string name;
  for (const char c : std::filesystem::path(word).stem().string()) {
    const bool is_plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (is_plain || (!name.empty() && (c == '.' || c == '_' || c == '-')))
      name += c;
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  return name.empty() ? "job" : name.substr(0, 60);
}

void check_processes_per_host(const JobSpec& spec, const Size& instance) {
  // Row T7's rule is about GPUs. An instance without any has no such limit: its processes share
  // cores, and mpirun is told to let them.
  const int processes = spec.mpi.processes_per_host;
  if (instance.gpus > 0 && processes > instance.gpus)
    throw InvalidInput(fmt::format("processes_per_host is {}, but {} has {} GPU{}", processes,
                                   spec.instance_type.empty() ? "an instance" : spec.instance_type,
                                   instance.gpus, instance.gpus == 1 ? "" : "s"),
                       {.advice = fmt::format("Give at most {}.", instance.gpus)});
}

void add(Words& words, std::initializer_list<std::string> more) {
  words.insert(words.end(), more.begin(), more.end());
}

// The words of `cohort run` that say how many tasks of which kind there are.
Words task_words(const ResolvedJob& job, bool workers_were_said) {
  const JobSpec& spec = job.spec;
  Words words;
  if (spec.distribution == Distribution::mpi) return {"--workers", "1"};  // mpirun
  if (spec.elastic)
    add(words,
        {"--workers", fmt::format("{}:{}", spec.elastic->least, spec.elastic->most), "--elastic"});
  else if (workers_were_said)
    add(words, {"--workers", std::to_string(job.processes)});
  if (job.colocated_servers) {
    add(words, {"--layout", "colocated"});
    if (find_option(spec, "chief-name") == nullptr) add(words, {"--chief-name", "master"});
  }
  if (spec.distribution != Distribution::none && find_option(spec, "strategy") == nullptr)
    add(words, {"--strategy", std::string(name_of(spec.distribution))});
  return words;
}

void add_size_words(const ResolvedJob& job, int processes_per_instance, Words& words) {
  const auto is_free = [&](const char* option) { return find_option(job.spec, option) == nullptr; };
  const int threads =
      std::max(1, static_cast<int>(std::floor(job.instance.cores / processes_per_instance)));
  if (is_free("threads-per-task")) add(words, {"--threads-per-task", std::to_string(threads)});
  // Workers of an elastic job share what there is: their most may need more GPUs than are there now.
  if (job.instance.gpus > 0 && job.spec.distribution != Distribution::mpi && !job.spec.elastic &&
      is_free("gpus-per-worker"))
    add(words, {"--gpus-per-worker", std::to_string(job.instance.gpus / processes_per_instance)});
}

}  // namespace

ResolvedJob resolve(const JobSpec& asked, const Machine& machine, const Catalogues& catalogues) {
  ResolvedJob job{.spec = asked};
  JobSpec& spec = job.spec;
  take_worker_options(spec);
  check_conflicts(spec);
  if (spec.name.empty()) spec.name = name_from(spec);
  job.program = program_words(spec);
  job.env = spec.env;
  job.colocated_servers = spec.distribution == Distribution::parameter_server;

  const int count = spec.instance_count.value_or(1);
  job.instances = spec.elastic ? spec.elastic->most : count;
  const int least = spec.elastic ? spec.elastic->least : count;
  const int processes_per_instance =
      spec.distribution == Distribution::mpi ? spec.mpi.processes_per_host : 1;
  job.processes = job.instances * processes_per_instance;

  const Resources resources = choose_resources(spec, least, machine, catalogues);
  job.instance = resources.given;
  if (!resources.note.empty()) job.notes.push_back(resources.note);
  if (!resources.was_said) job.instance.gpus = gpus_option(spec, machine);

  const bool workers_were_said = spec.instance_count || spec.distribution != Distribution::none;
  job.run_words = task_words(job, workers_were_said);
  if (resources.was_said || machine.is_shared)
    add_size_words(job, processes_per_instance, job.run_words);
  if (spec.restarts) add(job.run_words, {"--max-restarts", std::to_string(*spec.restarts)});
  const Words options = run_option_words(spec.run_options);
  job.run_words.insert(job.run_words.end(), options.begin(), options.end());

  if (spec.distribution == Distribution::mpi) {
    check_processes_per_host(spec, resources.asked);
    MpiWords mpi = mpi_option_words(spec.mpi.custom_options);
    job.mpirun_words = {"-np", std::to_string(job.processes)};
    job.mpirun_words.insert(job.mpirun_words.end(), mpi.words.begin(), mpi.words.end());
    job.notes.insert(job.notes.end(), mpi.notes.begin(), mpi.notes.end());
  }
  for (const auto& [channel, input] : spec.inputs)
    if (channel_place(input).find("://") != std::string::npos)
      job.notes.push_back(
          fmt::format("input '{}' is {}: the program reads it itself", channel, input));
  job.runtime = choose_runtime(spec, machine, catalogues, job.notes);
  return job;
}

}  // namespace cohort::jobspec

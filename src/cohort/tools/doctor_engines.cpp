// `cohort doctor --engine NAME`: one row of kEngines for each engine.
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/cluster/environment.h"
#include "cohort/engine/host_staging.h"
#include "cohort/engine/kubernetes/kubernetes_engine.h"
#include "cohort/launch/job/job.h"
#include "cohort/tools/doctor.h"

namespace cohort::tools {
namespace {

using Findings = std::vector<Finding>;

bool has_program(const std::string& name) {
  try {
    launch::find_program(name, cluster::Environment::of_this_process().find_value("PATH").value_or(
                                   "/usr/local/bin:/usr/bin:/bin"));
    return true;
  } catch (const InvalidInput&) {
    return false;
  }
}

Finding check_program(const std::string& name, const std::string& why, const std::string& fix) {
  if (has_program(name)) return {.subject = name, .text = why};
  return {name, Level::wrong, fmt::format("not in PATH: {}", why), fix};
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

Findings check_local(const EngineQuestion&) {
  return {check_program("python3", "runs entry points that are *.py", "apt-get install python3"),
          has_program("mpirun")
              ? Finding{.subject = "mpirun", .text = "runs jobs with the distribution mpi"}
              : Finding{"mpirun", Level::note, "not in PATH: no jobs with the distribution mpi",
                        "apt-get install openmpi-bin"}};
}

// What the engine itself says that it lacks, or that it lacks nothing.
Findings findings_of(const std::vector<std::string>& missing, const std::string& subject,
                     const std::string& good, const std::string& fix) {
  if (missing.empty()) return {{.subject = subject, .text = good}};
  Findings findings;
  for (const std::string& what : missing) findings.push_back({subject, Level::wrong, what, fix});
  return findings;
}

Findings check_hosts(const EngineQuestion& question) {
  if (question.hosts.hosts.empty())
    return {check_program("ssh", "starts tasks on other hosts (--remote-shell names another way)",
                          "apt-get install openssh-client"),
            {"hosts", Level::note, "none was named, and none was asked",
             "Name them: cohort doctor --engine hosts --hosts node1,node2"}};
  return findings_of(engine::missing_for_hosts(question.hosts), "hosts",
                     "all of them answer, and have this version of Cohort",
                     "See docs/engine-hosts.md.");
}

Findings check_kubernetes(const EngineQuestion& question) {
  return findings_of(engine::kubernetes::missing_for_kubernetes(question.kubernetes.setup()),
                     "kubernetes", "the cluster answers, and the account has all rights",
                     "See docs/engine-kubernetes.md.");
}

Finding check_controller() {
  if (output_of("scontrol ping")) return {.subject = "slurmctld", .text = "answers"};
  return {"slurmctld", Level::wrong, "does not answer (scontrol ping)",
          "Look at SlurmctldHost in slurm.conf and at SLURM_CONF; a machine that submits needs the "
          "cluster's slurm.conf and its munge key."};
}

// `sinfo` with a format of its own: a partition and its state a line.
Finding check_partitions() {
  const auto said = output_of("sinfo --noheader --format='%R|%a|%D'");
  if (!said) return {"partitions", Level::wrong, "sinfo does not tell", "See slurmctld."};
  std::vector<std::string> up;
  for (const std::string& line : split(*said, '\n')) {
    const auto parts = split(line, '|');
    if (parts.size() == 3 && parts[1] == "up")
      up.push_back(fmt::format("{} ({} node{})", escape_controls(parts[0]), parts[2],
                               parts[2] == "1" ? "" : "s"));
  }
  if (up.empty())
    return {"partitions", Level::wrong, "none is up", "Ask who runs the cluster; see sinfo."};
  return {.subject = "partitions", .text = join(up, ", ") + "; the field queue chooses one"};
}

Finding check_munge() {
  if (output_of("sh -c 'munge -n | unmunge'"))
    return {.subject = "munge", .text = "works: proves to Slurm who asks"};
  return {"munge", Level::note, "does not work here",
          "Only where the cluster uses it: start munged with the cluster's key."};
}

Findings check_slurm(const EngineQuestion&) {
  constexpr const char* kClient =
      "Install Slurm's commands of the cluster's version "
      "(Debian: apt-get install slurm-client).";
  Findings findings;
  for (const auto& [name, why] :
       {std::pair{"sbatch", "hands jobs to Slurm"},
        std::pair{"squeue", "tells what becomes of them"}, std::pair{"scancel", "stops them"},
        std::pair{"srun", "starts tasks on the nodes"},
        std::pair{"scontrol", "tells whether the controller answers"}})
    findings.push_back(check_program(name, why, kClient));
  for (const Finding& finding : findings)
    if (finding.level == Level::wrong) return findings;
  findings.push_back({.subject = "version",
                      .text = first_line(output_of("sbatch --version").value_or("unknown")) +
                              "; tried with 22.05"});
  findings.push_back(check_controller());
  if (findings.back().level == Level::ok) findings.push_back(check_partitions());
  findings.push_back(check_munge());
  findings.push_back({.subject = "files",
                      .text = "cohort, data and the service's folder must be on a file system that "
                              "the nodes share"});
  return findings;
}

struct ExaminedEngine {
  const char* name;
  Findings (*check)(const EngineQuestion& question);
};

constexpr ExaminedEngine kEngines[] = {
    {"local", check_local},
    {"hosts", check_hosts},
    {"slurm", check_slurm},
    {"kubernetes", check_kubernetes},
};

}  // namespace

// The standard output of a shell command, at most 20 s of it; nothing when it failed.
std::optional<std::string> output_of(const std::string& command) {
  FILE* pipe = ::popen(fmt::format("timeout 20 {} 2>/dev/null", command).c_str(), "r");
  if (!pipe) return std::nullopt;
  std::string text;
  char buffer[4096];
  while (size_t count = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, count);
  if (::pclose(pipe) != 0) return std::nullopt;
  return text;
}

std::vector<std::string> examined_engines() {
  std::vector<std::string> names;
  for (const ExaminedEngine& engine : kEngines) names.emplace_back(engine.name);
  return names;
}

std::vector<Finding> examine_engine(const EngineQuestion& question) {
  for (const ExaminedEngine& known : kEngines)
    if (question.engine == known.name) return known.check(question);
  throw InvalidInput(fmt::format("--engine '{}' is not one of {}", escape_controls(question.engine),
                                 join(examined_engines(), ", ")));
}

}  // namespace cohort::tools

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cohort/launch/job/job.h"
#include "cohort/tools/kubernetes_options.h"

// What `cohort doctor` finds.
namespace cohort::tools {

enum class Level { ok, note, wrong };

struct Finding {
  std::string subject;
  Level level = Level::ok;
  std::string text;
  std::string fix = {};  // "" when there is nothing to mend
};

// The standard output of a shell command, at most 20 s of it; nothing when it failed.
std::optional<std::string> output_of(const std::string& command);

// The GPUs that tasks on this machine get, and the driver that serves them.
Finding check_gpus();
// What gradients travel by between them. `nccl`: the version that LibTorch brings; empty: none.
Finding check_device_transport(const std::string& nccl);

// The engine that is asked about, and what `cohort serve` would be told of it.
struct EngineQuestion {
  std::string engine;
  launch::JobOptions hosts;  // its host options
  KubernetesArguments kubernetes;
};

// What this machine has for the jobs of an engine. Throws InvalidInput for an unknown name.
std::vector<Finding> examine_engine(const EngineQuestion& question);
std::vector<std::string> examined_engines();

}  // namespace cohort::tools

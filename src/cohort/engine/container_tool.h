#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cohort/cluster/environment.h"

// The program that runs containers on this host.
namespace cohort::engine {

// Names it, with words that go before its subcommand: "podman --root /scratch/containers".
inline constexpr const char* kContainerToolVariable = "COHORT_CONTAINER_TOOL";

// Every container of a job has these labels: its job, the attempt that started it, and its own
// name.
inline constexpr const char* kJobLabel = "cohort.job";
inline constexpr const char* kAttemptLabel = "cohort.attempt";
inline constexpr const char* kTaskLabel = "cohort.task";

struct ContainerTool {
  std::vector<std::string> words;  // not empty
  bool is_docker = false;          // by its name; everything else is taken for podman

  std::vector<std::string> command(const std::vector<std::string>& more) const;
};

// What COHORT_CONTAINER_TOOL says, else podman, else docker, whichever PATH has. Throws
// InvalidInput.
ContainerTool find_container_tool(const cluster::Environment& environment);

// What keeps containers of this image from running here: no tool, or the image is not here. A
// sentence, with the command that fetches it; "" where nothing does. Images are never fetched by
// themselves: they may have gigabytes. Takes 10 s at most.
std::string missing_image(const std::string& image, const cluster::Environment& environment);

// Ends and removes the containers with this label and value; how many there were. Throws
// InvalidInput without a tool, PeerError when it fails.
int remove_containers(std::string_view label, std::string_view value,
                      const cluster::Environment& environment);

}  // namespace cohort::engine

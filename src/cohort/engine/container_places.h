#pragma once

#include <filesystem>
#include <vector>

#include "cohort/jobspec/job_environment.h"

// Where a job's folders lie inside a container.
namespace cohort::engine {

struct Mount {
  std::filesystem::path here;
  std::filesystem::path inside;
  bool writable = false;
};

struct ContainerPlaces {
  jobspec::Folders inside;  // what the program is told
  std::vector<Mount> mounts;
};

// Output at /data/output, the model at /data/model (or inside of the output, where it lies there),
// the source at /data/code, the data of channel NAME at /data/input/NAME, that of a channel which
// is one file at /data/input/NAME/FILE. `here` is where they lie on this host; a URI stays a URI.
// Only output and model are writable. Looks at this host to tell files from folders, and else is
// pure.
ContainerPlaces container_places(const jobspec::ResolvedJob& job, const jobspec::Folders& here);

}  // namespace cohort::engine

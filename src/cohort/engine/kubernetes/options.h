#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cohort/jobspec/resolved_job.h"
#include "cohort/launch/job/job.h"

namespace cohort::engine::kubernetes {

// A claim (PersistentVolumeClaim) that every pod sees under `path`.
struct ClaimVolume {
  std::string claim;
  std::string path;
  bool read_only = false;

  bool operator==(const ClaimVolume&) const = default;
};

// "CLAIM:/path" or "CLAIM:/path:ro". Throws InvalidInput.
ClaimVolume parse_volume(const std::string& text);

// How the pods of all jobs are made; what a job says itself goes first. A value.
struct PodOptions {
  std::string name_space;                            // "": as the access says, else "default"
  std::string image;                                 // for jobs that name none
  std::string cohort = "cohort";                     // where `cohort` lies in the image
  std::string pull_secret;                           // "": none
  std::string queue;                                 // Kueue's; "": none
  std::string output_claim;                          // "": results go with the pod
  std::vector<ClaimVolume> volumes;                  // data
  std::map<std::string, std::string> node_selector;  // labels of the nodes that may run pods
};

// What the words of `cohort run` in a job ask for (the command line's parser is not an engine's).
using ReadWords = std::function<launch::JobOptions(const jobspec::ResolvedJob& job)>;

}  // namespace cohort::engine::kubernetes

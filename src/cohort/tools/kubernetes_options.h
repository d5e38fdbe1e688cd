#pragma once

#include <string>
#include <vector>

#include "cohort/engine/kubernetes/kubernetes_setup.h"

namespace CLI {
class App;
}

namespace cohort::tools {

// The command line's options for jobs on Kubernetes: of `cohort serve`, and of what prints or
// checks.
struct KubernetesArguments {
  std::string kubeconfig, context;
  engine::kubernetes::PodOptions pods;
  std::vector<std::string> volumes, node_selector;

  void declare_pods(CLI::App& app);  // parsing writes into this object, which must outlive `app`
  void declare_access(CLI::App& app);

  engine::kubernetes::PodOptions pod_options() const;  // throws InvalidInput
  engine::kubernetes::KubernetesSetup setup() const;   // throws InvalidInput
};

// What the words of `cohort run` in a job ask for, settled. Throws InvalidInput.
launch::JobOptions job_options(const jobspec::ResolvedJob& job);

// The documents of `cohort submit --print FORM`: kubernetes, kubernetes-jobset, or
// kubernetes-account. `source`: the folder of the program; empty: none. Throws InvalidInput.
std::string kubernetes_text(jobspec::ResolvedJob job, const std::string& form,
                            const engine::kubernetes::PodOptions& options);

}  // namespace cohort::tools

#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cohort/base/unique_fd.h"
#include "cohort/cluster/environment.h"

namespace cohort::engine::kubernetes {

// How the API server of a cluster is reached, and how this process proves itself there. A value;
// copies share the memory files that hold certificates given inside a kubeconfig.
struct ClusterAccess {
  std::string server;   // "https://10.0.0.1:6443"
  std::string prefix;   // of every path, of a server behind a gateway; "" or "/k8s/c1"
  std::string context;  // for people
  std::string name_space = "default";
  std::filesystem::path ca_file;           // empty: the system's
  std::filesystem::path certificate, key;  // empty: none
  // Asked before every request, since tokens are renewed in their file; "": none. Empty: none ever.
  std::function<std::string()> token;
  std::vector<std::shared_ptr<UniqueFd>> files = {};  // kept open for ca_file and the like
};

// That of a pod: KUBERNETES_SERVICE_HOST and the files of its service account. Throws InvalidInput.
ClusterAccess access_in_cluster(
    const cluster::Environment& environment,
    const std::filesystem::path& folder = "/var/run/secrets/kubernetes.io/serviceaccount");

// One context of a kubeconfig file; "": its current-context. Tokens, token files and client
// certificates are used; exec plugins, auth providers, passwords and servers whose certificate is
// not to be checked are refused. Throws InvalidInput that names the file.
ClusterAccess read_kubeconfig(const std::filesystem::path& file, const std::string& context = "");

// `kubeconfig` if given; else KUBECONFIG; else that of a pod, where this is one; else
// ~/.kube/config. Throws InvalidInput.
ClusterAccess find_access(const cluster::Environment& environment, const std::string& kubeconfig,
                          const std::string& context);

}  // namespace cohort::engine::kubernetes

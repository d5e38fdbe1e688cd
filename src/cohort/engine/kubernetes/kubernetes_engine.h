#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "cohort/engine/engine.h"
#include "cohort/engine/kubernetes/attempt_follower.h"
#include "cohort/engine/kubernetes/kubernetes_setup.h"

namespace cohort::engine::kubernetes {

// Runs attempts as Indexed Jobs of a Kubernetes cluster: a pod for each task. Scheduling is the
// cluster's; the service only hands jobs over. Each attempt has a follower (attempt_follower.h) in
// this process, from submit() on, or from the first time that a later process asks for it.
// Methods read what the followers know; scale() alone waits for the API server, 2 s at most.
class KubernetesEngine : public Engine {
 public:
  explicit KubernetesEngine(KubernetesSetup setup);

  std::string_view name() const override { return "kubernetes"; }
  Abilities abilities() const override {
    return {.scales = true, .images = true, .sizes_unknown = true};
  }
  void check(const jobspec::ResolvedJob& job, const std::filesystem::path& source) const override;
  void submit(const AttemptRequest& request) override;
  AttemptStatus observe(const std::filesystem::path& folder) const override;
  LogChunk read_log(const std::filesystem::path& folder, std::string_view task,
                    std::uint64_t offset, std::size_t most_bytes) const override;
  void stop(const std::filesystem::path& folder) override;
  void scale(const std::filesystem::path& folder, int workers) override;
  std::vector<std::filesystem::path> list(const std::filesystem::path& jobs) const override;

 private:
  void follow(const std::filesystem::path& folder) const;
  AttemptStatus known(const std::filesystem::path& folder) const;

  KubernetesSetup setup_;
  mutable std::mutex mutex_;
  mutable std::map<std::filesystem::path, std::unique_ptr<AttemptFollower>> followers_;
};

// For `cohort doctor --engine kubernetes`: what keeps jobs from running there, a sentence each; the
// rights are asked of the API server itself. Takes 10 s at most.
std::vector<std::string> missing_for_kubernetes(const KubernetesSetup& setup);

}  // namespace cohort::engine::kubernetes

#include "cohort/tools/kubernetes_options.h"

#include <CLI/CLI.hpp>

#include "cohort/base/crypto/secret.h"
#include "cohort/base/error.h"
#include "cohort/engine/kubernetes/manifest.h"
#include "cohort/jobspec/source/source_package.h"
#include "cohort/tools/run_command.h"

namespace cohort::tools {

namespace kubernetes = engine::kubernetes;

void KubernetesArguments::declare_pods(CLI::App& app) {
  const char* group = "Kubernetes";
  app.add_option("--kubernetes-namespace", pods.name_space, "Namespace; the context's")
      ->group(group);
  app.add_option("--kubernetes-image", pods.image, "Image of jobs that name none")->group(group);
  app.add_option("--kubernetes-cohort", pods.cohort, "Where cohort lies in images; cohort")
      ->group(group);
  app.add_option("--kubernetes-pull-secret", pods.pull_secret, "Secret to pull images with")
      ->group(group);
  app.add_option("--kubernetes-queue", pods.queue, "Kueue's queue, of jobs that name none")
      ->group(group);
  app.add_option("--kubernetes-output", pods.output_claim,
                 "Claim that keeps results; without, they go with the pods")
      ->group(group);
  app.add_option("--kubernetes-volume", volumes,
                 "CLAIM:/path[:ro] that every pod sees (may be repeated)")
      ->group(group);
  app.add_option("--kubernetes-node-selector", node_selector,
                 "LABEL=VALUE of the nodes that may run pods (may be repeated)")
      ->group(group);
}

void KubernetesArguments::declare_access(CLI::App& app) {
  const char* group = "Kubernetes";
  app.add_option("--kubeconfig", kubeconfig,
                 "The cluster; KUBECONFIG, else that of this pod, else ~/.kube/config")
      ->group(group);
  app.add_option("--kubernetes-context", context, "Context of the kubeconfig; its current one")
      ->group(group);
}

kubernetes::PodOptions KubernetesArguments::pod_options() const {
  kubernetes::PodOptions options = pods;
  for (const std::string& text : volumes) options.volumes.push_back(kubernetes::parse_volume(text));
  for (const std::string& text : node_selector) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      throw InvalidInput(fmt::format("--kubernetes-node-selector is '{}'", text),
                         {.advice = "Give LABEL=VALUE."});
    options.node_selector[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return options;
}

kubernetes::KubernetesSetup KubernetesArguments::setup() const {
  return {.access =
              [kubeconfig = kubeconfig, context = context] {
                return kubernetes::find_access(cluster::Environment::of_this_process(), kubeconfig,
                                               context);
              },
          .read_words = job_options,
          .pods = pod_options()};
}

launch::JobOptions job_options(const jobspec::ResolvedJob& job) {
  launch::JobOptions options =
      parse_run_words({.arguments = job.run_words, .program = job.program}).job;
  options.command = job.program;
  launch::settle(options);
  return options;
}

std::string kubernetes_text(jobspec::ResolvedJob job, const std::string& form,
                            const kubernetes::PodOptions& options) {
  if (form == "kubernetes-account")
    return kubernetes::as_stream(kubernetes::service_account(options.name_space));
  const std::string mark = Secret::generate().to_text().substr(0, 10);
  kubernetes::ManifestInput input{.request = {.id = fmt::format("{}-{}.1", job.spec.name, mark)},
                                  .asked = job_options(job),
                                  .name = kubernetes::job_name(job.spec.name, mark),
                                  .secret = Secret::generate().to_text()};
  if (!job.spec.source_dir.empty()) {
    jobspec::PackedSource packed = jobspec::pack_source(job.spec.source_dir);
    input.source = std::move(packed.archive);
    job.spec.source = packed.id;
    job.spec.source_dir.clear();
  }
  input.request.instances = job.instances;
  input.request.job = std::move(job);
  const kubernetes::Manifest manifest = kubernetes::make_manifest(input, options);
  const kubernetes::Json runs =
      form == "kubernetes-jobset" ? kubernetes::as_job_set(manifest) : manifest.job;
  return kubernetes::as_stream({manifest.secret, manifest.service, runs});
}

}  // namespace cohort::tools

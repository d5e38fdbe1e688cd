#include <CLI/CLI.hpp>

#include "cohort/base/files/files.h"
#include "cohort/engine/kubernetes/pod_task.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/kubernetes_options.h"

namespace cohort::tools {
namespace {

int run_pod(engine::kubernetes::PodPlace place) {
  const auto environment = cluster::Environment::of_this_process();
  place.index = engine::kubernetes::completion_index(environment);
  if (place.service.empty()) place.service = place.job;
  const auto file = place.mounted / engine::kubernetes::kRequestFile;
  const auto request = engine::attempt_from_json(read_file(file), place.mounted);
  return engine::kubernetes::run_pod_task(request, job_options(request.job), place, environment);
}

}  // namespace

Command pod_task_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto place = std::make_shared<engine::kubernetes::PodPlace>();
    app.description(
        "Runs the task of this pod of a submitted job. Every pod of the job runs this command; "
        "which\n"
        "task it is follows from JOB_COMPLETION_INDEX.");
    app.add_option("FOLDER", place->mounted, "Where the attempt's Secret is mounted")->required();
    app.add_option("--job", place->job, "Name of the Job")->required();
    app.add_option("--service", place->service, "Name of its Service, if it is another");
    app.add_option("--last-word", place->last_word, "The container's termination message");
    return [place](const Words&, const Words&) { return run_pod(*place); };
  };
  return {"pod-task", "", "", declare};
}

}  // namespace cohort::tools

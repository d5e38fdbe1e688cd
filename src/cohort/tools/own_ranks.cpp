#include "cohort/tools/own_ranks.h"

#include <fmt/core.h>

#include <filesystem>

#include "cohort/cluster/environment.h"
#include "cohort/launch/supervise/supervisor.h"

namespace cohort::tools {

int run_own_ranks(int ranks, std::vector<std::string> words,
                  const std::map<std::string, std::string>& environment) {
  launch::JobOptions job;
  job.workers = ranks;
  job.quiet = true;
  job.show = {"worker:0"};
  job.environment = environment;
  job.output =
      std::filesystem::temp_directory_path() / fmt::format("cohort-{}", launch::new_job_id());
  words.insert(words.begin(), std::filesystem::read_symlink("/proc/self/exe").string());
  words.push_back("--as-rank");
  job.command = std::move(words);
  launch::settle(job);
  const int code = launch::Supervisor(job, cluster::Environment::of_this_process(), "").run();
  if (code == 0) std::filesystem::remove_all(job.output);
  return code;
}

}  // namespace cohort::tools

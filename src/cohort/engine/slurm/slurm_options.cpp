#include "cohort/engine/slurm/slurm_options.h"

#include <algorithm>
#include <cmath>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/jobspec/words.h"

namespace cohort::engine {
namespace {

// The launcher ends the job itself when max_run is over; Slurm's limit is there in case it cannot.
constexpr std::int64_t kSpareMinutes = 3;
constexpr std::uint64_t kMebibyte = 1 << 20;

// What Cohort decides, and why a job cannot.
struct Decided {
  const char* option;
  const char* advice;
};
constexpr Decided kDecided[] = {
    {"array",
     "Give it to cohort submit: each element is a job with its own state, logs and model."},
    {"job-name", "The field name says it."},
    {"ntasks", "The field instance_count says it."},
    {"cpus-per-task", "The field cores says it."},
    {"partition", "The field queue says it."},
    {"time", "The field max_run says it."},
    {"output", "Logs are where Cohort looks for them: leave it out."},
    {"error", "Logs are where Cohort looks for them: leave it out."},
    {"input", "Leave it out."},
    {"open-mode", "Leave it out."},
    {"wrap", "The field program says what runs."},
    {"parsable", "Leave it out."},
    {"export", "The field env sets variables."},
    {"export-file", "The field env sets variables."},
    {"requeue", "Leave it out; --no-requeue is taken."},
    {"signal", "Leave it out."},
    {"chdir", "Leave it out."},
    {"wait", "Leave it out."},
    {"uid", "Leave it out."},
    {"gid", "Leave it out."},
};

void require_own_word(const std::string& word) {
  const auto refuse = [&](const std::string& why, const std::string& advice) {
    throw InvalidInput(fmt::format("engine_options: '{}' {}", escape_controls(word), why),
                       {.advice = advice});
  };
  if (!word.starts_with("--") || word.size() < 3 || escape_controls(word) != word)
    refuse("is no option of sbatch", "Write each as one word, as in --account=vision.");
  const std::string name = word.substr(2, word.find('=') - 2);
  for (const Decided& decided : kDecided)
    if (name == decided.option) refuse("is decided by Cohort", decided.advice);
}

}  // namespace

std::vector<std::string> slurm_options(const jobspec::ResolvedJob& job, const std::string& name) {
  const jobspec::JobSpec& spec = job.spec;
  std::vector<std::string> words = {fmt::format("--job-name={}", name),
                                    fmt::format("--ntasks={}", job.instances)};
  const int cores = std::max(1, static_cast<int>(std::ceil(job.instance.cores)));
  words.push_back(fmt::format("--cpus-per-task={}", cores));
  if (job.instance.memory_bytes > 0) {
    const auto bytes = job.instance.memory_bytes / static_cast<std::uint64_t>(cores);
    words.push_back(fmt::format("--mem-per-cpu={}M", (bytes + kMebibyte - 1) / kMebibyte));
  }
  // With GPUs an instance is a node: its worker sees all GPUs that Slurm gave the job there.
  if (job.instance.gpus > 0)
    words.insert(words.end(),
                 {"--ntasks-per-node=1", fmt::format("--gres=gpu:{}", job.instance.gpus)});
  if (spec.max_run.count() > 0)
    words.push_back(fmt::format("--time={}", (spec.max_run.count() + 59) / 60 + kSpareMinutes));
  if (spec.queue != "default") words.push_back(fmt::format("--partition={}", spec.queue));
  if (spec.elastic) words.emplace_back("--no-kill");
  words.insert(words.end(), {"--requeue", "--open-mode=append", "--signal=B:TERM@60"});
  for (const std::string& word : spec.engine_options) {
    require_own_word(word);
    words.push_back(word);
  }
  return words;
}

std::string slurm_script(const jobspec::ResolvedJob& job, const std::vector<std::string>& command) {
  std::string text = "#!/bin/sh\n# Submit it with: sbatch FILE\n";
  for (const std::string& option : slurm_options(job, job.spec.name))
    text += fmt::format("#SBATCH {}\n", shell_quote(option));
  text += "\n";
  for (const auto& [variable, value] : job.env)
    text += fmt::format("export {}={}\n", variable, shell_quote(value));
  text +=
      "# Logs and checkpoints; the folder is on a file system that all nodes share.\n"
      "output=\"$SLURM_SUBMIT_DIR/cohort-output/slurm-$SLURM_JOB_ID\"\n"
      "# Slurm started it again, after a preemption or the loss of a node: it goes on.\n"
      "if [ \"${SLURM_RESTART_COUNT:-0}\" -gt 0 ] && [ -e \"$output/job.json\" ]; then\n"
      "  exec cohort resume \"$output\"\n"
      "fi\n";
  return text + fmt::format("exec cohort run --slurm --output \"$output\" {}\n",
                            jobspec::shell_text(command));
}

}  // namespace cohort::engine

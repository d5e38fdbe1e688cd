#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/text.h"
#include "cohort/engine/slurm/slurm_options.h"
#include "cohort/jobspec/catalogue.h"
#include "cohort/jobspec/spec_toml.h"
#include "cohort/jobspec/words.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/job_array.h"
#include "cohort/tools/job_fields.h"
#include "cohort/tools/job_wait.h"
#include "cohort/tools/kubernetes_options.h"
#include "cohort/tools/platform_client.h"
#include "cohort/tools/run_file.h"

namespace cohort::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSubmitExamples = R"(
Examples:
  cohort submit -n 2 -- ./train --epochs 3
      two workers; prints the job's id and returns
  cohort submit --follow job.toml --hyperparameter lr=0.01
      a job file, one value of it changed; shows the log until the job has ended
  cohort submit --wait --source-dir code --entry-point train.py --instance-count 2 \
      --instance-type 2x4g --distribution parameter_server --input training=/data/mnist
      what an estimator of a platform asks for
  cohort submit --array 0-9 --wait -- python3 train.py
      ten jobs; COHORT_ARRAY_INDEX tells each its number
  cohort submit --print mpirun job.toml
      what would be started; nothing is
  cohort submit --print slurm job.toml > job.sh; sbatch job.sh
      the same job by hand, without a service
  cohort submit --print kubernetes --image registry/train:1 -n 4 -- ./train | kubectl apply -f -
      four pods of a Kubernetes cluster, without a service

Without a service, this user's own is started; COHORT_SERVICE=https://HOST:PORT and COHORT_TOKEN name
a shared one. A program that is a file here is found from wherever the job runs; files that it needs
come with --source-dir.

The exit code is 0 when the job was accepted, 2 when it was refused. With --wait or --follow it is
that of the job, and 130 when Ctrl-C left it running.
)";

struct SubmitArguments {
  JobFields fields;
  std::string file;
  std::string print;
  std::string array;
  KubernetesArguments kubernetes;
  bool wait = false;
  bool follow = false;
};

bool is_script(const fs::path& file) {
  return file.extension() == ".py" || file.extension() == ".sh";
}

void anchor_file(std::string& word) {
  std::error_code ignored;
  if (fs::is_regular_file(word, ignored)) word = fs::absolute(word).lexically_normal().string();
}

// `train.py`, or `python3 train.py`: the first word behind the program that is no option, where it
// names a file here, by its whole path. Files of a source folder are found there.
void anchor_script(jobspec::JobSpec& spec) {
  Words& words = spec.program;
  if (!spec.source_dir.empty() || !spec.source.empty() || words.empty()) return;
  if (is_script(words.front())) return anchor_file(words.front());
  const auto script = std::find_if(words.begin() + 1, words.end(),
                                   [](const auto& word) { return !word.starts_with('-'); });
  if (script != words.end()) anchor_file(*script);
}

// Elsewhere the program itself is what is submitted.
jobspec::JobSpec read_submitted(const std::string& file) {
  const fs::path extension = fs::path(file).extension();
  const bool is_description = extension == ".toml" || extension == ".json";
  std::error_code ignored;
  if (is_script(file) ||
      (!is_description && fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0))
    throw InvalidInput(fmt::format("'{}' is a program, not a job file", file),
                       {.advice = fmt::format("Put it behind --, as in: cohort submit -- {}{}",
                                              extension == ".py" ? "python3 " : "", file)});
  if (!is_description && !fs::exists(file, ignored)) {
    const bool is_pair = file.find('=') != file.npos;
    throw InvalidInput(
        fmt::format("'{}' is no job file: there is no such file", file),
        {.advice = is_pair ? "Write the option again before each value, as in: --hyperparameter "
                             "a=1 --hyperparameter b=2."
                           : "Put a program behind --, as in: cohort submit -n 2 -- ./train"});
  }
  return read_description(file);
}

jobspec::JobSpec described_job(const SubmitArguments& arguments, const Words& program) {
  jobspec::JobSpec spec;
  if (!arguments.file.empty()) spec = read_submitted(arguments.file);
  spec = arguments.fields.over(std::move(spec));
  if (!program.empty()) {
    spec.program = program;
    spec.entry_point.clear();
  }
  if (spec.program.empty() && spec.entry_point.empty())
    throw InvalidInput("no program to submit",
                       {.advice = "Put it behind --, as in: cohort submit -n 2 -- ./train; or name "
                                  "a job file, or --entry-point."});
  if (arguments.print.starts_with("kubernetes")) spec.engine = "kubernetes";
  jobspec::anchor_paths(spec, fs::current_path());
  if (spec.engine != "kubernetes") anchor_script(spec);
  return spec;
}

std::string command_line(const jobspec::ResolvedJob& job, bool mpirun) {
  Words words = mpirun ? Words{"mpirun"} : Words{"cohort", "run"};
  const auto& options = mpirun ? job.mpirun_words : job.run_words;
  words.insert(words.end(), options.begin(), options.end());
  if (!mpirun) {
    words.push_back("--");
    if (!job.mpirun_words.empty()) {
      words.push_back("mpirun");
      words.insert(words.end(), job.mpirun_words.begin(), job.mpirun_words.end());
    }
  }
  words.insert(words.end(), job.program.begin(), job.program.end());
  return jobspec::shell_text(words);
}

// What a machine of a cluster has is for its scheduler to say.
jobspec::Machine any_machine() {
  jobspec::Machine machine = this_machine();
  machine.size = {.cores = 1e6, .memory_bytes = 1ULL << 60, .gpus = 1'000'000};
  machine.hosts = 1'000'000;
  return machine;
}

// The words of `cohort run` behind the hosts; mpirun finds the nodes, and Slurm hands out GPUs.
Words run_words_under_slurm(const jobspec::ResolvedJob& job) {
  Words words = job.run_words;
  const auto gpus = std::find(words.begin(), words.end(), "--gpus-per-worker");
  if (words.end() - gpus >= 2) words.erase(gpus, gpus + 2);
  words.emplace_back("--");
  if (!job.mpirun_words.empty()) {
    words.emplace_back("mpirun");
    words.insert(words.end(), job.mpirun_words.begin(), job.mpirun_words.end());
  }
  words.insert(words.end(), job.program.begin(), job.program.end());
  return words;
}

void print_job(const jobspec::JobSpec& spec, const std::string& form,
               const KubernetesArguments& kubernetes) {
  if (form == "toml") return fmt::print("{}", jobspec::to_toml(spec));
  if (form == "json") return fmt::print("{}\n", jobspec::to_json(spec));
  const bool on_slurm = form == "slurm", on_kubernetes = form.starts_with("kubernetes");
  const auto job =
      jobspec::resolve(spec, on_slurm || on_kubernetes ? any_machine() : this_machine(),
                       jobspec::read_catalogues(sdk::default_root()));
  for (const auto& note : job.notes) log::info("{}", note);
  if (on_slurm) return fmt::print("{}", engine::slurm_script(job, run_words_under_slurm(job)));
  if (on_kubernetes) return fmt::print("{}", kubernetes_text(job, form, kubernetes.pod_options()));
  if (form == "mpirun" && job.mpirun_words.empty())
    throw InvalidInput("the job is not started by mpirun",
                       {.advice = "Add --distribution mpi, or print it with --print shell."});
  for (const auto& [name, value] : job.env) fmt::print("{}={} ", name, shell_quote(value));
  fmt::print("{}\n", command_line(job, form == "mpirun"));
}

void print_array(const jobspec::JobSpec& spec, const JobArray& array,
                 const SubmitArguments& arguments) {
  if (arguments.print != "slurm")
    throw InvalidInput(fmt::format("--array cannot be printed as {}", arguments.print),
                       {.advice = "Leave --array out, or print it with --print slurm."});
  const auto job =
      jobspec::resolve(spec, any_machine(), jobspec::read_catalogues(sdk::default_root()));
  for (const auto& note : job.notes) log::info("{}", note);
  std::string text = engine::slurm_script(job, run_words_under_slurm(job));
  const std::string first = "#SBATCH ";
  text.insert(text.find(first), fmt::format("{}--array={}\n", first, array.text));
  fmt::print("{}", text);
}

// Each element is accepted or refused by itself; their ids are printed as they are accepted.
int submit_array(const jobspec::JobSpec& spec, const JobArray& array,
                 const SubmitArguments& arguments) {
  if (arguments.follow)
    throw InvalidInput("--follow shows the log of one job, and an array has several",
                       {.advice = "Use --wait, and cohort logs ID for one of them."});
  if (array.most_at_once > 0)
    throw InvalidInput(
        fmt::format("--array '{}': how many run at once is for the queue to say", array.text),
        {.advice = "Leave % out: as many start as there is room for, and a low --priority lets "
                   "other jobs go first."});
  sdk::ServiceClient client(sdk::find_or_start_service());
  const std::string id = new_array_id();
  std::vector<std::string> jobs;
  for (std::size_t place = 0; place < array.indices.size(); ++place) {
    try {
      jobs.push_back(client.submit(array_element(spec, array, place, id)).id);
    } catch (const Error&) {
      if (place > 0)
        log::error("{} of {} elements were submitted: cohort jobs --tag array={}", place,
                   array.indices.size(), id);
      throw;
    }
    fmt::print("{}\n", escape_controls(jobs.back()));
    std::fflush(stdout);
  }
  log::info("array {} has {} jobs: cohort jobs --tag array={}", id, jobs.size(), id);
  int code = 0;
  for (const std::string& job : arguments.wait ? jobs : std::vector<std::string>()) {
    const int ended = wait_for_job(client.address(), job, /*follow=*/false);
    if (code == 0) code = ended;
    if (ended == kLeft) return kLeft;
  }
  return code;
}

int submit_job(const SubmitArguments& arguments, const Words& program) {
  const std::vector<std::string> forms = {"shell",
                                          "mpirun",
                                          "slurm",
                                          "toml",
                                          "json",
                                          "kubernetes",
                                          "kubernetes-jobset",
                                          "kubernetes-account"};
  if (!arguments.print.empty() &&
      std::find(forms.begin(), forms.end(), arguments.print) == forms.end())
    throw InvalidInput(
        fmt::format("--print '{}' is not one of {}", arguments.print, join(forms, ", ")));
  const jobspec::JobSpec spec = described_job(arguments, program);
  if (!arguments.array.empty()) {
    const JobArray array = parse_array(arguments.array);
    if (arguments.print.empty()) return submit_array(spec, array, arguments);
    print_array(spec, array, arguments);
    return 0;
  }
  if (!arguments.print.empty()) {
    print_job(spec, arguments.print, arguments.kubernetes);
    return 0;
  }
  sdk::ServiceClient client(sdk::find_or_start_service());
  sdk::Job job = client.submit(spec);
  fmt::print("{}\n", escape_controls(job.id));
  std::fflush(stdout);
  if (job.notes.empty()) job = client.job(job.id);
  for (const auto& note : job.notes) log::info("{}", escape_controls(note));
  if (!arguments.wait && !arguments.follow) return 0;
  return wait_for_job(client.address(), job.id, arguments.follow);
}

}  // namespace

Command submit_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto arguments = std::make_shared<SubmitArguments>();
    arguments->fields.declare(app);
    app.description("Hands a job to the service, which queues and runs it.");
    app.footer(kSubmitExamples);
    app.add_option("FILE", arguments->file, "Job file (TOML); the command line wins")
        ->type_name("FILE");
    app.add_option("--array", arguments->array,
                   "A job for each index, as in 0-9, 1,3,7 or 0-15:4; each has the variable "
                   "COHORT_ARRAY_INDEX")
        ->type_name("INDICES")
        ->group("Job");
    app.add_flag("--wait", arguments->wait, "Return when the job has ended")->group("Waiting");
    app.add_flag("--follow", arguments->follow, "The same, and show its log")->group("Waiting");
    app.add_option("--print", arguments->print, "Print what would be started; start nothing")
        ->type_name("shell|mpirun|slurm|toml|json|kubernetes|kubernetes-jobset|kubernetes-account")
        ->group("Waiting");
    arguments->kubernetes.declare_pods(app);
    return
        [arguments](const Words&, const Words& program) { return submit_job(*arguments, program); };
  };
  return {"submit", "hand a job to the service, which queues and runs it",
          "[job.toml] [options] [-- program args...]", declare};
}

}  // namespace cohort::tools

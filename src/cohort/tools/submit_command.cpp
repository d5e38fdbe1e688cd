#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/text.h"
#include "cohort/jobspec/catalogue.h"
#include "cohort/jobspec/spec_toml.h"
#include "cohort/jobspec/words.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/job_fields.h"
#include "cohort/tools/job_wait.h"
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
  cohort submit --print mpirun job.toml
      what would be started; nothing is

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
  bool wait = false;
  bool follow = false;
};

// `python3 train.py`: the first word behind the program that is no option, where it names a file
// here, by its whole path. Files of a source folder are found there.
void anchor_script(jobspec::JobSpec& spec) {
  if (!spec.source_dir.empty() || !spec.source.empty() || spec.program.size() < 2) return;
  for (std::size_t i = 1; i < spec.program.size(); ++i) {
    std::string& word = spec.program[i];
    if (word.starts_with('-')) continue;
    std::error_code ignored;
    if (fs::is_regular_file(word, ignored)) word = fs::absolute(word).lexically_normal().string();
    return;
  }
}

jobspec::JobSpec described_job(const SubmitArguments& arguments, const Words& program) {
  jobspec::JobSpec spec;
  if (!arguments.file.empty()) spec = jobspec::read_job_file(arguments.file, known_run_options());
  spec = arguments.fields.over(std::move(spec));
  if (!program.empty()) {
    spec.program = program;
    spec.entry_point.clear();
  }
  if (spec.program.empty() && spec.entry_point.empty())
    throw InvalidInput("no program to submit",
                       {.advice = "Put it behind --, as in: cohort submit -n 2 -- ./train; or name "
                                  "a job file, or --entry-point."});
  jobspec::anchor_paths(spec, fs::current_path());
  anchor_script(spec);
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

void print_job(const jobspec::JobSpec& spec, const std::string& form) {
  if (form == "toml") return fmt::print("{}", jobspec::to_toml(spec));
  if (form == "json") return fmt::print("{}\n", jobspec::to_json(spec));
  const auto job =
      jobspec::resolve(spec, this_machine(), jobspec::read_catalogues(sdk::default_root()));
  if (form == "mpirun" && job.mpirun_words.empty())
    throw InvalidInput("the job is not started by mpirun",
                       {.advice = "Add --distribution mpi, or print it with --print shell."});
  for (const auto& note : job.notes) log::info("{}", note);
  for (const auto& [name, value] : job.env) fmt::print("{}={} ", name, shell_quote(value));
  fmt::print("{}\n", command_line(job, form == "mpirun"));
}

int submit_job(const SubmitArguments& arguments, const Words& program) {
  const std::vector<std::string> forms = {"shell", "mpirun", "toml", "json"};
  if (!arguments.print.empty() &&
      std::find(forms.begin(), forms.end(), arguments.print) == forms.end())
    throw InvalidInput(
        fmt::format("--print '{}' is not one of {}", arguments.print, join(forms, ", ")));
  const jobspec::JobSpec spec = described_job(arguments, program);
  if (!arguments.print.empty()) {
    print_job(spec, arguments.print);
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
    app.add_flag("--wait", arguments->wait, "Return when the job has ended")->group("Waiting");
    app.add_flag("--follow", arguments->follow, "The same, and show its log")->group("Waiting");
    app.add_option("--print", arguments->print, "Print what would be started; start nothing")
        ->type_name("shell|mpirun|toml|json")
        ->group("Waiting");
    return
        [arguments](const Words&, const Words& program) { return submit_job(*arguments, program); };
  };
  return {"submit", "hand a job to the service, which queues and runs it",
          "[job.toml] [options] [-- program args...]", declare};
}

}  // namespace cohort::tools

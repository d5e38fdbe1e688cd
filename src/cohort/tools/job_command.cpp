#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <iterator>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/text.h"
#include "cohort/engine/local_engine.h"
#include "cohort/jobspec/instance_type.h"
#include "cohort/jobspec/spec_toml.h"
#include "cohort/jobspec/words.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/run_file.h"

namespace cohort::tools {
namespace {

constexpr const char* kJobExamples = R"(
Examples:
  cohort job check job.toml
      is the file right, and what would the job be on this machine?
  cohort job check job.toml --set instance_count=4 --set hyperparameters.lr=0.01 --format json
      the same with other values, as JSON with every choice made

FILE ends in .json for a description in JSON. What is printed as TOML is a job file again. What the
job needs and this machine lacks (program, source folder, data) is named on standard error. The exit
code is 2 for a description that is wrong, or asks for more than this machine has.
)";

struct JobCheckArguments {
  std::string what;
  std::string file;
  std::string format = "toml";
  std::vector<std::string> settings;
};

// What is not on this machine is no mistake of the description, but `cohort submit` refuses it.
void tell_missing(const jobspec::ResolvedJob& job) {
  if (job.spec.engine != "local") return;
  try {
    const bool has_source = !job.spec.source_dir.empty();
    engine::LocalEngine().check(
        job, has_source ? std::filesystem::absolute(job.spec.source_dir) : std::filesystem::path());
  } catch (const InvalidInput& error) {
    log::warning("on this machine {}", error.message());
  }
}

// A job file, with what follows from it as comments.
std::string as_toml(const jobspec::ResolvedJob& job) {
  std::string text = fmt::format("# {} instance{} with {}; {} training process{}\n", job.instances,
                                 job.instances == 1 ? "" : "s", to_words(job.instance),
                                 job.processes, job.processes == 1 ? "" : "es");
  Words words = {"cohort", "run"};
  words.insert(words.end(), job.run_words.begin(), job.run_words.end());
  words.push_back("--");
  if (!job.mpirun_words.empty()) {
    words.push_back("mpirun");
    words.insert(words.end(), job.mpirun_words.begin(), job.mpirun_words.end());
  }
  words.insert(words.end(), job.program.begin(), job.program.end());
  text += fmt::format("# {}\n", escape_controls(jobspec::shell_text(words)));
  for (const std::string& note : job.notes)
    text += fmt::format("# note: {}\n", escape_controls(note));
  return text + jobspec::to_toml(job.spec);
}

int check_job(const JobCheckArguments& arguments) {
  if (arguments.what != "check")
    throw InvalidInput(arguments.what.empty()
                           ? std::string("cohort job needs to know what to do")
                           : fmt::format("cohort job cannot '{}'", escape_controls(arguments.what)),
                       {.advice = "As in: cohort job check job.toml"});
  if (arguments.file.empty())
    throw InvalidInput("cohort job check needs a file",
                       {.advice = "As in: cohort job check job.toml"});
  if (arguments.format != "toml" && arguments.format != "json")
    throw InvalidInput(
        fmt::format("--format '{}' is not one of toml, json", escape_controls(arguments.format)));
  const jobspec::KnownOptions known = known_run_options();
  jobspec::JobSpec spec = read_description(arguments.file);
  for (const std::string& setting : arguments.settings)
    spec = jobspec::with_setting(spec, setting, known);
  jobspec::ResolvedJob job;
  try {
    job = jobspec::resolve(spec, this_machine(), jobspec::read_catalogues({}));
  } catch (const InvalidInput& error) {
    throw InvalidInput(fmt::format("{}: {}", arguments.file, error.message()), error.context());
  }
  std::cout << (arguments.format == "json" ? to_json(job) + "\n" : as_toml(job)) << std::flush;
  tell_missing(job);
  return 0;
}

}  // namespace

Command job_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto arguments = std::make_shared<JobCheckArguments>();
    app.description("Checks a job's description, and prints it with every choice made.");
    app.footer(kJobExamples);
    app.add_option("WHAT", arguments->what, "What to do")->type_name("check");
    app.add_option("FILE", arguments->file, "The job file")->type_name("FILE");
    app.add_option("--format", arguments->format, "How to print it [toml]")->type_name("toml|json");
    app.add_option("--set", arguments->settings, "Another value for a field (may be repeated)")
        ->take_all()
        ->allow_extra_args(false)
        ->type_name("KEY=VALUE");
    return [arguments](const Words&, const Words&) { return check_job(*arguments); };
  };
  return {"job", "check a job's description", "check FILE [options]", declare};
}

}  // namespace cohort::tools

#include "cohort/tools/run_command.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/cluster/environment.h"
#include "cohort/launch/job/job_choices.h"
#include "cohort/launch/plan/plan.h"
#include "cohort/launch/supervise/supervisor.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/dashboard_process.h"
#include "cohort/tools/host_options.h"
#include "cohort/tools/run_file.h"

namespace cohort::tools {
namespace {

using launch::JobOptions;

constexpr const char* kRunName = "run";
constexpr int kLongestGrace = 7 * 24 * 3600;       // seconds
constexpr int kLongestRun = 10 * 365 * 24 * 3600;  // seconds

constexpr const char* kRunExamples = R"(
Examples:
  cohort run -n 4 -- ./train --epochs 3
      four workers on this machine, worker/0 is the chief
  cohort run -n 2 -- python3 ddp.py
      a PyTorch DistributedDataParallel script, as torchrun would start it
  cohort run -n 2 --ps 1 --coordinator -- python3 ps.py
      TensorFlow's ParameterServerStrategy: a chief, two workers, one parameter server
  cohort run -n 4 --layout colocated --chief-name master -- python3 estimator.py
      master/0, worker/0..2 and a parameter server beside each
  cohort run -n 2:8 --elastic -- ./train --epochs 3
      eight workers; goes on with any two or more of them, and starts those that die again
  cohort run --config job.toml --dry-run
      what a job file would start, with every task's environment

The exit code is 0 when the job succeeded, else that of the first failing task (128 + signal when
one killed it), 2 for a mistake on the command line, 130 after Ctrl-C.
)";

void add_environment(const std::vector<std::string>& settings, JobOptions& job) {
  for (const auto& setting : settings) {
    size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0)
      throw InvalidInput(fmt::format("--env '{}' is not of the form NAME=VALUE", setting),
                         {.advice = fmt::format("Write --env {}=value.", setting)});
    job.environment[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
}

// An option whose value is one of a few words; `target` takes what the word stands for.
template <typename Target, typename Choices>
CLI::Option* add_choice(CLI::App& app, const std::string& name, Target& target,
                        const Choices& choices, const std::string& description) {
  Words words;
  for (const auto& [word, value] : choices) words.push_back(word);
  auto take = [name, words, &choices, &target](const std::string& text) {
    for (const auto& [word, value] : choices)
      if (word == text) {
        target = value;
        return;
      }
    std::string meant = nearest(text, words);
    throw InvalidInput(
        fmt::format("{} '{}' is not one of {}", name, text, join(words, ", ")),
        {.advice = meant.empty() ? "Choose one of them." : fmt::format("Did you mean {}?", meant)});
  };
  return app.add_option_function<std::string>(name, take, description)->type_name(join(words, "|"));
}

void add_seconds(CLI::App& app, const std::string& name, std::chrono::milliseconds& target,
                 int most, const std::string& description) {
  app.add_option_function<double>(
         name,
         [name, most, &target](double seconds) {
           if (!(seconds >= 0 && seconds <= most))
             throw InvalidInput(
                 fmt::format("{} must be from 0 to {} seconds, got {}", name, most, seconds));
           target = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
         },
         description)
      ->type_name("S")
      ->group("Ending");
}

void declare_options(CLI::App& app, RunArguments& arguments) {
  JobOptions& job = arguments.job;
  app.description("Starts, watches and ends a distributed job on this machine.");
  app.footer(kRunExamples);
  app.option_defaults()->take_last();

  declare_elastic_options(app, job, arguments.elastic);
  app.add_option("--ps", job.ps, "Parameter servers [0]")->type_name("N")->group("Tasks");
  app.add_flag("--evaluator", job.evaluator, "Add an evaluator")->group("Tasks");
  add_choice(app, "--chief-name", job.chief_name, launch::kChiefNames,
             "What the first of the workers is called; none: worker/0 is the chief [none]")
      ->group("Tasks");
  app.add_flag("--coordinator", job.coordinator,
               "Add a chief that directs the workers and does not train")
      ->group("Tasks");
  add_choice(app, "--layout", job.layout, launch::kLayouts,
             "colocated: a parameter server beside each worker, the first host's worker is the "
             "chief [separate]")
      ->group("Tasks");
  app.add_option("--strategy", job.strategy, "Distribution strategy, told to Cohort's programs")
      ->type_name("NAME")
      ->group("Tasks");
  declare_host_options(app, job);

  app.add_option("--output", job.output, "Folder for logs and job.json [cohort-output/<job id>]")
      ->type_name("DIR")
      ->group("Output");
  app.add_option("--keep", job.keep,
                 "Without --output: remove old runs from cohort-output but for the newest N, those "
                 "of the last 7 days, pinned ones and those with checkpoints; 0: keep all [20]")
      ->type_name("N")
      ->group("Output");
  app.add_option("--show", job.show, "Show only these tasks, as in worker:0,ps")
      ->delimiter(',')
      ->take_all()
      ->type_name("TASK")
      ->group("Output");
  app.add_flag("--dashboard", arguments.dashboard,
               "Show this run in the page of your own service, and print a link to it")
      ->group("Output");
  app.add_flag("-q,--quiet", job.quiet, "Say nothing while all is well")->group("Output");

  add_choice(app, "--success", job.success, launch::kSuccessPolicies,
             "Whose exit with 0 ends the job [all-workers; chief with --coordinator]")
      ->group("Ending");
  add_seconds(app, "--grace", job.grace, kLongestGrace, "Seconds between TERM and KILL [5]");
  add_seconds(app, "--max-run", job.max_run, kLongestRun,
              "Seconds after which the job has failed, with exit code 124; 0: no limit [0]");
  app.add_option("--task-restarts", job.task_restarts,
                 "Start a killed task that can go on alone again, at most N times; 0: never [3]")
      ->type_name("N")
      ->group("Ending");

  app.add_option_function<std::vector<std::string>>(
         "--env", [&job](const auto& settings) { add_environment(settings, job); },
         "Set a variable for every task (may be repeated)")
      ->take_all()
      ->type_name("NAME=VALUE")
      ->group("Environment");
  app.add_flag("--scheduler-args", job.scheduler_args,
               "Append --job_name --task_index --ps_hosts --worker_hosts to the command line")
      ->group("Environment");
  app.add_option("--gpus-per-worker", job.gpus_per_worker,
                 "Give each worker N GPUs of its own (CUDA_VISIBLE_DEVICES)")
      ->type_name("N")
      ->group("Environment");
  app.add_option("--threads-per-task", job.threads_per_task,
                 "OMP_NUM_THREADS [cores / tasks, unless already set]")
      ->type_name("N")
      ->group("Environment");
  app.add_flag("--horovod", job.horovod,
               "Serve the key-value store through which the ranks of a Horovod program meet")
      ->group("Environment");
  add_choice(app, "--proxy", job.proxy, launch::kProxyModes,
             "bypass: the job's own hosts go past the proxy; strip: no proxy at all [bypass]")
      ->group("Environment");

  app.add_option(
         "--config", arguments.config,
         "Job file (TOML) with the same keys and those of a submitted job; the command line wins")
      ->type_name("FILE")
      ->group("Job");
  app.add_flag("--dry-run", arguments.dry_run,
               "Print every task's environment and command line; start nothing")
      ->group("Job");
}

// Parses `words` on top of what `arguments` holds already.
void parse_into(RunArguments& arguments, const Words& words) {
  CLI::App app("", kRunName);
  declare_options(app, arguments);
  parse_words(app, words);
}

void print_dry_run(const JobOptions& job, const cluster::Environment& environment) {
  launch::JobIdentity identity = launch::new_identity(job, environment);
  std::error_code code;  // a current folder that was deleted
  if (auto whole = std::filesystem::absolute(identity.output, code); !code) identity.output = whole;
  launch::PortReservation ports;
  identity.store = {"127.0.0.1", ports.reserve()};
  if (job.horovod) identity.horovod_rendezvous = {"127.0.0.1", ports.reserve()};
  std::cout << launch::describe(launch::make_plan(job, identity, 1, ports, environment));
}

int run_job(const RunWords& words) {
  RunArguments arguments = parse_run_words(words);
  launch::settle(arguments.job);
  const auto environment = cluster::Environment::of_this_process();
  if (arguments.dry_run) {
    print_dry_run(arguments.job, environment);
    return 0;
  }
  // Before the supervisor, which would count it among the job's processes.
  std::optional<DashboardProcess> dashboard;
  if (arguments.dashboard) dashboard.emplace();
  launch::Supervisor supervisor(arguments.job, environment, to_json(words));
  if (dashboard) dashboard->show(supervisor.output());
  return supervisor.run();
}

}  // namespace

void declare_run_options(CLI::App& app, RunArguments& arguments) {
  declare_options(app, arguments);
}

RunArguments parse_run_words(const RunWords& words) {
  RunArguments arguments;
  if (!words.job_file.empty()) {
    try {
      parse_into(arguments, words.file_arguments);
    } catch (const InvalidInput& error) {
      throw InvalidInput(fmt::format("{}: {}", words.job_file, error.message()), error.context());
    }
    RunArguments asked;
    parse_into(asked, words.arguments);
    if (!asked.job.hosts.empty()) arguments.job.hosts.clear();  // lists would add up
  }
  parse_into(arguments, words.arguments);
  arguments.job.command = words.program;
  apply(arguments.elastic, arguments.job);
  return arguments;
}

Command run_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto asked = std::make_shared<RunArguments>();
    declare_options(app, *asked);
    return [asked](const Words& words, const Words& program) {
      RunWords all{.arguments = words, .program = program};
      if (!asked->config.empty()) add_job_file(asked->config, all);
      return run_job(all);
    };
  };
  return {kRunName, "start, watch and end a distributed job", "[options] -- program args...",
          declare};
}

}  // namespace cohort::tools

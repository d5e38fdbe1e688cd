#include "cohort/tools/job_fields.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/jobspec/spec_toml.h"
#include "cohort/tools/run_file.h"

namespace cohort::tools {
namespace {

// How the value of an option becomes one of a job file.
enum class Form {
  text,        // "..."
  number,      // as it is: a number, a size, a duration
  pairs,       // NAME=VALUE, the value as text; may be repeated
  words,       // each one of a list; may be repeated
  json_pairs,  // NAME=VALUE, the value as a number, true, a list, or text; may be repeated
};

struct FieldOption {
  const char* option;
  const char* key;
  Form form;
  const char* type_name;
  const char* description;
  const char* group;
};

constexpr FieldOption kFields[] = {
    {"--name", "name", Form::text, "NAME", "What the job is called [made from the program]", "Job"},
    {"--engine", "engine", Form::text, "local|hosts|slurm|kubernetes", "What runs it [local]",
     "Job"},
    {"--engine-option", "engine_options", Form::words, "WORD",
     "For the engine's scheduler, as in --engine-option=--account=vision (may be repeated)", "Job"},
    {"--queue", "queue", Form::text, "NAME", "The queue that it waits in [default]", "Job"},
    {"--priority", "priority", Form::number, "N", "-1000 to 1000; higher first [0]", "Job"},
    {"--tag", "tags", Form::pairs, "KEY=VALUE", "A tag to find it by (may be repeated)", "Job"},
    {"--role", "role", Form::text, "NAME", "Kept with the job; nothing depends on it", "Job"},
    {"--entry-point", "entry_point", Form::text, "FILE", "The program, a file of --source-dir",
     "Program"},
    {"--source-dir", "source_dir", Form::text, "DIR",
     "Folder with the program; packed, and put where the job runs", "Program"},
    {"--framework", "framework", Form::text, "NAME", "tensorflow, pytorch or cohort", "Program"},
    {"--framework-version", "framework_version", Form::text, "VERSION", "Its version", "Program"},
    {"--py-version", "py_version", Form::text, "VERSION", "py3, py37 ...", "Program"},
    {"--image", "image", Form::text, "IMAGE", "Container image", "Program"},
    {"--hyperparameter", "hyperparameters", Form::json_pairs, "NAME=VALUE",
     "Arrives as --NAME VALUE (may be repeated)", "Program"},
    {"--input", "inputs", Form::pairs, "CHANNEL=PATH",
     "Data; arrives as COHORT_CHANNEL_<NAME> and SM_CHANNEL_<NAME> (may be repeated)", "Program"},
    {"--output", "output", Form::text, "DIR", "Where results go [the job's folder of the service]",
     "Program"},
    {"--env", "env", Form::pairs, "NAME=VALUE", "A variable of every task (may be repeated)",
     "Program"},
    {"--instance-count", "instance_count", Form::number, "N", "Instances [1]", "Resources"},
    {"--instance-type", "instance_type", Form::text, "TYPE",
     "local, local_gpu, CORESxMEMORY[xGPUS] as in 2x4g, or a platform's name", "Resources"},
    {"--cores", "cores", Form::number, "N", "Cores of an instance", "Resources"},
    {"--memory", "memory", Form::text, "SIZE", "Memory of an instance, as in 2GiB", "Resources"},
    {"--gpus", "gpus", Form::number, "N", "GPUs of an instance", "Resources"},
    {"--restarts", "restarts", Form::number, "N",
     "Start the whole group again after a failure, at most N times [0]", "Ending"},
    {"--max-run", "max_run", Form::text, "TIME", "Ended after it: 90s, 2h30m [no limit]", "Ending"},
};

// Options of `cohort run` that submitted jobs do not have: they are about the screen and the folder
// of a run, or a field says the same in another way.
constexpr const char* kOfRunAlone[] = {"config",       "dry-run", "elastic", "help", "keep",
                                       "max-restarts", "quiet",   "show",    "slurm"};

std::string toml_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      quoted += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
    else
      quoted += c;
  }
  return quoted + "\"";
}

// "hyperparameters.\"lr\"=0.1" of "lr=0.1".
std::string pair_setting(const FieldOption& field, const std::string& pair) {
  const std::size_t equals = pair.find('=');
  if (equals == pair.npos || equals == 0)
    throw InvalidInput(
        fmt::format("{} '{}' is not of the form {}", field.option, pair, field.type_name),
        {.advice =
             pair.find('/') != pair.npos  // the value is there, the name is not
                 ? fmt::format("Write {} training={}.", field.option, pair)
                 : fmt::format("Write {} {}=value.", field.option, pair.empty() ? "name" : pair)});
  const std::string value = pair.substr(equals + 1);
  return fmt::format("{}.{}={}", field.key, toml_text(pair.substr(0, equals)),
                     field.form == Form::pairs ? toml_text(value) : value);
}

void declare_field(CLI::App& app, const FieldOption& field, std::vector<std::string>& settings) {
  if (field.form == Form::pairs || field.form == Form::json_pairs) {
    auto take = [&settings, &field](const std::vector<std::string>& pairs) {
      for (const auto& pair : pairs) settings.push_back(pair_setting(field, pair));
    };
    app.add_option_function<std::vector<std::string>>(field.option, take, field.description)
        ->take_all()
        ->allow_extra_args(false)
        ->type_name(field.type_name)
        ->group(field.group);
    return;
  }
  if (field.form == Form::words) {
    auto take = [&settings, &field](const std::vector<std::string>& words) {
      std::vector<std::string> texts;
      for (const auto& word : words) texts.push_back(toml_text(word));
      settings.push_back(fmt::format("{}=[{}]", field.key, join(texts, ", ")));
    };
    app.add_option_function<std::vector<std::string>>(field.option, take, field.description)
        ->take_all()
        ->allow_extra_args(false)
        ->type_name(field.type_name)
        ->group(field.group);
    return;
  }
  auto take = [&settings, &field](const std::string& text) {
    settings.push_back(
        fmt::format("{}={}", field.key, field.form == Form::text ? toml_text(text) : text));
  };
  app.add_option_function<std::string>(field.option, take, field.description)
      ->type_name(field.type_name)
      ->group(field.group);
}

void declare_distribution(CLI::App& app, std::vector<std::string>& settings) {
  auto set = [&settings](const std::string& key) {
    return [&settings, key](const std::string& value) { settings.push_back(key + "=" + value); };
  };
  app.add_option_function<std::string>(
         "--distribution",
         [&settings](const std::string& name) {
           const std::vector<std::string> known = {"parameter_server", "mpi",
                                                   "multi_worker_mirrored"};
           if (std::find(known.begin(), known.end(), name) == known.end())
             throw InvalidInput(
                 fmt::format("--distribution '{}' is not one of {}", name, join(known, ", ")));
           settings.push_back(fmt::format("distributions.{}.enabled=true", name));
         },
         "How the processes of the instances work together")
      ->type_name("parameter_server|mpi|multi_worker_mirrored")
      ->group("Resources");
  app.add_option_function<std::string>("--processes-per-host",
                                       set("distributions.mpi.processes_per_host"),
                                       "With mpi: processes of an instance [1]")
      ->type_name("N")
      ->group("Resources");
  app.add_option_function<std::string>(
         "--custom-mpi-options",
         [&settings](const std::string& text) {
           settings.push_back("distributions.mpi.custom_mpi_options=" + toml_text(text));
         },
         "With mpi: further options of mpirun; --NAME VALUE that it does not know is exported")
      ->type_name("WORDS")
      ->group("Resources");
  app.add_option_function<std::string>(
         "--elastic",
         [&settings](const std::string& text) {
           const std::size_t colon = text.find(':');
           if (colon == text.npos)
             throw InvalidInput(fmt::format("--elastic '{}' is not a range", text),
                                {.advice = "As in: --elastic 1:4"});
           settings.push_back(fmt::format("elastic={{min={}, max={}}}", text.substr(0, colon),
                                          text.substr(colon + 1)));
         },
         "The least and the most workers: starts with the least, grows into free slots")
      ->type_name("LEAST:MOST")
      ->group("Resources");
  app.add_flag_callback(
         "--strict-resources", [&settings] { settings.push_back("strict_resources=true"); },
         "Refuse a platform's instance type that this machine is too small for")
      ->group("Resources");
  app.add_option_function<std::vector<std::string>>(
         "--metric",
         [&settings](const std::vector<std::string>& pairs) {
           std::vector<std::string> definitions;
           for (const auto& pair : pairs) {
             const std::size_t equals = pair.find('=');
             if (equals == pair.npos || equals == 0)
               throw InvalidInput(fmt::format("--metric '{}' is not of the form NAME=REGEX", pair),
                                  {.advice = R"(As in: --metric 'loss=loss: ([0-9.]+)')"});
             definitions.push_back(fmt::format("{{name={}, regex={}}}",
                                               toml_text(pair.substr(0, equals)),
                                               toml_text(pair.substr(equals + 1))));
           }
           settings.push_back(fmt::format("metric_definitions=[{}]", join(definitions, ", ")));
         },
         "A number that is found in the logs: its first group (may be repeated)")
      ->take_all()
      ->allow_extra_args(false)
      ->type_name("NAME=REGEX")
      ->group("Program");
}

// The long name of an option of `cohort run` that is one of submit's, too; "" for others.
std::string shared_name(const CLI::Option& option) {
  if (option.get_positional() || option.get_lnames().empty()) return {};
  const std::string& name = option.get_lnames().front();
  for (const char* alone : kOfRunAlone)
    if (name == alone) return {};
  for (const FieldOption& field : kFields)
    if ("--" + name == field.option) return {};
  return name;
}

// An option of `cohort run` as the key of a job file.
std::string run_setting(const CLI::Option& option) {
  const std::string key = option.get_lnames().front();
  if (option.get_items_expected_max() == 0)
    return fmt::format("{}={}", key, option.results().back());
  if (option.get_multi_option_policy() != CLI::MultiOptionPolicy::TakeAll)
    return fmt::format("{}={}", key, toml_text(option.results().back()));
  std::vector<std::string> texts;
  for (const auto& text : option.results()) texts.push_back(toml_text(text));
  return fmt::format("{}=[{}]", key, join(texts, ", "));
}

// Messages of with_setting() name an option of `cohort job check`, which submit does not have.
jobspec::JobSpec changed(const jobspec::JobSpec& spec, const std::string& setting,
                         const jobspec::KnownOptions& known) {
  try {
    return jobspec::with_setting(spec, setting, known);
  } catch (const InvalidInput& error) {
    constexpr std::string_view kOtherOption = "--set: ";
    const std::string& message = error.message();
    throw InvalidInput(
        message.starts_with(kOtherOption) ? message.substr(kOtherOption.size()) : message,
        error.context());
  }
}

}  // namespace

void JobFields::declare(CLI::App& app) {
  declare_run_options(app, run_);
  for (CLI::Option* option : app.get_options())
    if (shared_name(*option).empty() && option != app.get_help_ptr()) app.remove_option(option);
  for (CLI::Option* option : app.get_options())
    if (option != app.get_help_ptr()) of_run_.push_back(option->allow_extra_args(false));
  for (const FieldOption& field : kFields) declare_field(app, field, settings_);
  declare_distribution(app, settings_);
}

jobspec::JobSpec JobFields::over(jobspec::JobSpec spec) const {
  const jobspec::KnownOptions known = known_run_options();
  for (const CLI::Option* option : of_run_)
    if (option->count() > 0) spec = changed(spec, run_setting(*option), known);
  for (const auto& setting : settings_) spec = changed(spec, setting, known);
  return spec;
}

}  // namespace cohort::tools

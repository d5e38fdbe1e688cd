#include "cohort/jobspec/job_environment.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cohort/jobspec/field_forms.h"
#include "cohort/jobspec/words.h"

namespace cohort::jobspec {
namespace {

using Json = nlohmann::ordered_json;

// "train-images" -> "TRAIN_IMAGES".
std::string variable_part(std::string_view name) {
  std::string result;
  for (const char c : name) {
    const bool is_small = c >= 'a' && c <= 'z';
    const bool stays = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    result += is_small ? static_cast<char>(c - 'a' + 'A') : stays ? c : '_';
  }
  return result;
}

// SM_: the variables of SageMaker's training toolkit. TM_: those that the documentation of the TI
// SDK names for its TensorFlow and PyTorch estimators (TM_MODEL_DIR, TM_OUTPUT_DATA_DIR,
// TM_NUM_GPUS, TM_CHANNEL_<NAME>).
void add_channels(const ResolvedJob& job, const Folders& folders, Variables& variables) {
  Json names = Json::array();
  for (const auto& [channel, input] : job.spec.inputs) {
    const auto found = folders.channels.find(channel);
    const std::string place =
        found == folders.channels.end() ? channel_place(input) : found->second.string();
    for (const char* prefix : {"COHORT_CHANNEL_", "SM_CHANNEL_", "TM_CHANNEL_"})
      variables[prefix + variable_part(channel)] = place;
    names.push_back(channel);
  }
  variables["SM_CHANNELS"] = names.dump();
}

void add_hyperparameters(const ResolvedJob& job, Variables& variables) {
  const Json all = json_object(job.spec.hyperparameters);
  variables["SM_HPS"] = all.is_null() ? "{}" : all.dump();
  for (const auto& [name, value] : all.items())
    variables["SM_HP_" + variable_part(name)] =
        value.is_string() ? value.get<std::string>() : value.dump();
  variables["SM_USER_ARGS"] = Json(hyperparameter_words(job.spec.hyperparameters)).dump();
}

void add_folders(const Folders& folders, Variables& variables) {
  const auto add = [&variables](const std::filesystem::path& folder,
                                std::initializer_list<const char*> names) {
    if (folder.empty()) return;
    for (const char* name : names) variables[name] = folder.string();
  };
  add(folders.output,
      {"COHORT_OUTPUT", "SM_OUTPUT_DIR", "SM_OUTPUT_DATA_DIR", "TM_OUTPUT_DATA_DIR"});
  add(folders.model, {"SM_MODEL_DIR", "TM_MODEL_DIR"});
  add(folders.source, {"SM_MODULE_DIR"});
}

}  // namespace

Variables job_environment(const ResolvedJob& job, const Folders& folders) {
  Variables variables;
  add_channels(job, folders, variables);
  add_hyperparameters(job, variables);
  add_folders(folders, variables);
  Json hosts = Json::array();
  for (int i = 0; i < job.instances; ++i) hosts.push_back(instance_name(i));
  variables["SM_HOSTS"] = hosts.dump();
  if (!job.spec.entry_point.empty()) variables["SM_USER_ENTRY_POINT"] = job.spec.entry_point;
  for (const auto& [name, value] : job.env) variables[name] = value;
  return variables;
}

Variables task_environment(const ResolvedJob& job, const Folders& folders, int instance) {
  Variables variables = job_environment(job, folders);
  const std::string gpus = std::to_string(job.instance.gpus);
  const auto cores = static_cast<int>(std::ceil(job.instance.cores));
  variables.merge(Variables{{"SM_CURRENT_HOST", instance_name(instance)},
                            {"SM_NUM_GPUS", gpus},
                            {"TM_NUM_GPUS", gpus},
                            {"SM_NUM_CPUS", std::to_string(cores)}});
  return variables;
}

std::string instance_name(int instance) { return fmt::format("algo-{}", instance + 1); }

std::string channel_place(const std::string& input) {
  constexpr std::string_view kFile = "file://";
  return input.starts_with(kFile) ? input.substr(kFile.size()) : input;
}

}  // namespace cohort::jobspec
